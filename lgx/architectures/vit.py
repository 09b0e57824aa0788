"""The ViT family: vision transformers, plain or of another form, built with timm."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar

import torch
from timm.layers import resample_abs_pos_embed, resample_patch_embed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from lgx.architectures.axes import Axes, read_axes
from lgx.architectures.base import Architecture, register_family
from lgx.architectures.building import building_on
from lgx.architectures.forms import ViTNetwork, build_form, check_form, meta_network, same_form
from lgx.architectures.names import name_of
from lgx.architectures.vit_model import SegmentationViT, segmenting, without_pooling
from lgx.core.schema import Field, check_fields
from lgx.core.task import IMAGE_SIZE, ImageSize, Kind, Task, height_width, image_size, parse_image_size, size_text
from lgx.errors import UserError

_FIELDS = {"img_size": IMAGE_SIZE, "form": Field(lambda value: type(value) is str, "a text")}


@dataclass(frozen=True)
class ViTArchitecture(Architecture):
    """A ViT under timm's parameter names: the plain ViT / DeiT, or a relative such as DINOv2, SigLIP, CLIP or EVA-02.

    Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021; Touvron et al. (DeiT), 2021.

    Attributes:
        depth: Number of transformer layers L.
        embed_dim: Width d.
        num_heads: Attention heads; must divide ``embed_dim``.
        mlp_ratio: Hidden width of the MLP divided by ``embed_dim``.
        patch_size: Side of a patch, pixels; must divide both sides of the image.
        img_size: Size of the image; in texts ``96x160`` for height 96 and width 160.
        num_classes: Outputs of the head, K; 0 builds no head.
        in_chans: Image channels.
        stages: Numbers of layers that share one set of weights, see :class:`~lgx.architectures.base.Architecture`.
        kind: What the head predicts: the class of an image, for ``segmentation`` the class of every pixel, for
            ``multilabel`` which labels an image has.
        form: Properties other than sizes, e.g. ``vit_small_patch14_dinov2``, see :mod:`lgx.architectures.forms`; empty
            for the plain ViT.
    """

    depth: int = 12
    embed_dim: int = 192
    num_heads: int = 3
    patch_size: int = 16
    img_size: ImageSize = 224
    num_classes: int = 1000
    in_chans: int = 3
    kind: Kind = "classification"
    form: str = ""
    family: ClassVar = "vit"
    label: ClassVar = "ViT"
    example: ClassVar = "6-Small"
    kinds: ClassVar = ("classification", "segmentation", "multilabel")
    head: ClassVar = "head."
    layers: ClassVar = "blocks."
    limits: ClassVar = {"depth": 1000, "embed_dim": 65_536, "num_heads": 65_536, "patch_size": 65_536, "in_chans": 1000}
    input_keys: ClassVar = ("img_size", "in_chans")
    shared_keys: ClassVar = ("img_size", "patch_size", "in_chans", "form")
    source_keys: ClassVar = ("depth", "embed_dim", "num_heads", "mlp_ratio", *shared_keys)
    source_sizes: ClassVar = "embed_dim, mlp_ratio, patch_size, in_chans and form"
    equal_layers: ClassVar = True

    def check(self) -> None:
        """Check the MLP's width, form and patches."""
        check_fields(vars(self), _FIELDS, "architecture")
        if int(self.embed_dim * self.mlp_ratio) < 1:
            raise UserError(
                f"architecture: mlp_ratio {self.mlp_ratio:g} gives an MLP without neurons; choose a larger ratio"
            )
        if isinstance(self.img_size, list | tuple):
            object.__setattr__(self, "img_size", image_size(*self.img_size))
        size = size_text(self.img_size)
        if any(side % self.patch_size for side in height_width(self.img_size)):
            raise UserError(
                f"architecture: patch_size {self.patch_size} does not divide img_size {size}; choose a divisor"
            )
        if self.form:
            check_form(self.form)
            self._one_layer()  # timm refuses sizes that contradict the form

    def check_inputs(self, task: Task, owner: str) -> None:
        """Refuse a task of images that have another size or another number of channels."""
        if (self.img_size, self.in_chans) != (task.img_size, task.in_chans):
            size, wanted = size_text(self.img_size), size_text(task.img_size)
            raise UserError(
                f"{owner}: reads {self.in_chans} channels of {size} px, but task {task.name} gives {task.in_chans} of "
                f"{wanted} px; write img_size={wanted},in_chans={task.in_chans} in the architecture, or set "
                f"data.img_size and data.in_chans to match"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width = height_width(self.img_size)
        return height // self.patch_size, width // self.patch_size

    @classmethod
    def parse_option(cls, key: str, text: str) -> dict[str, Any]:
        """Values of one ``key=text``."""
        if key == "form":
            return {"form": text}
        if key == "img_size":
            return {"img_size": parse_image_size(text)}
        return super().parse_option(key, text)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only; the plain ViT has no key ``form``."""
        values = super().to_dict()
        return values if self.form else {key: value for key, value in values.items() if key != "form"}

    @property
    def is_plain(self) -> bool:
        """Whether it is the papers' plain ViT with one class token."""
        return not self.form

    @property
    def num_prefix_tokens(self) -> int:
        """Number of tokens before the patch tokens: class token, registers, distillation token."""
        return 1 if self.is_plain else int(self._one_layer().num_prefix_tokens)

    @property
    def has_rotary_positions(self) -> bool:
        """Whether its layers use rotary position embeddings (RoPE)."""
        return not self.is_plain and getattr(self._one_layer(), "rope", None) is not None

    @property
    def timm_name(self) -> str:
        """Name of the timm model from which :meth:`timm_args` make this network."""
        return self.form or "vit_base_patch16_224"

    @property
    def head_prefixes(self) -> tuple[str, ...]:
        """Prefixes of the names of all heads' parameters; a distillation token has a head of its own."""
        distilled = not self.is_plain and hasattr(self._one_layer(), "head_dist")
        return (self.head, "head_dist.") if distilled else (self.head,)

    def check_source(self, source: Architecture, method: str) -> None:
        """Refuse a ViT whose form differs in more than its name."""
        if isinstance(source, ViTArchitecture) and not same_form(source.form, self.form):
            remedy = f"write form={source.form} in the architecture" if source.form else "leave out form"
            raise UserError(
                f"{method}: the source has the form {source.form or 'plain ViT'}, but the descendant has the form "
                f"{self.form or 'plain ViT'}; {remedy}"
            )

    def inherited(self, text: str) -> dict[str, Any]:
        """All sizes that the text does not name; heads keep their width, so a narrower network has fewer heads.

        A name of the papers has all but images and patches, a model of timm has all values.
        """
        named = dict(part.strip().partition("=")[::2] for part in text.split(","))
        if text.startswith("timm:"):
            return {}
        if "=" not in text.partition(",")[0]:
            return {key: getattr(self, key) for key in self.shared_keys if key not in named}
        values = {key: getattr(self, key) for key in self.source_keys if key not in named}
        if "stages" in named:
            del values["depth"]
        if "num_heads" not in named and named.get("embed_dim", "").isdigit():
            values["num_heads"] = max(1, int(named["embed_dim"]) * self.num_heads // self.embed_dim)
        return values

    def _one_layer(self) -> ViTNetwork:
        """The network with a single layer, on the meta device; only for a form that is not plain."""
        return meta_network(self.form, tuple({**self.timm_args(), "img_size": self.img_size, "depth": 1}.items()))

    def fit_input_sizes(self, tensors: Mapping[str, Tensor], source: Architecture | None) -> dict[str, Tensor]:
        """Resample position embedding and patch projection to this image and patch size, with timm's functions.

        Args:
            tensors: Parameters, among them ``pos_embed`` (1, P + rows * columns, D), where P of the prefix tokens have
                a position, and ``patch_embed.proj.weight`` (D, C, p, p).
            source: Gives the grid of positions. The grid is a square without a source, or if the source has another
                number of patches.

        Returns:
            The parameters; a position embedding with an unknown grid is unchanged.
        """
        fitted = without_pooling(tensors) if self.kind == "segmentation" else dict(tensors)
        embedding = tensors.get("pos_embed")
        projection = tensors.get("patch_embed.proj.weight")
        of_form = None if self.is_plain else self._one_layer().pos_embed
        # Number of prefix tokens with a row in the position embedding.
        prefix = self.num_prefix_tokens if of_form is None else int(of_form.shape[1]) - math.prod(self.grid)
        grid = None if embedding is None else _grid_of(embedding, prefix, source)
        if embedding is not None and grid not in (None, self.grid):
            fitted["pos_embed"] = resample_abs_pos_embed(embedding, [*self.grid], grid, num_prefix_tokens=prefix)
        size = [self.patch_size, self.patch_size]
        if projection is not None and list(projection.shape[-2:]) != size:
            fitted["patch_embed.proj.weight"] = resample_patch_embed(projection, size)
        return fitted

    def timm_args(self) -> dict[str, Any]:
        """Arguments of timm's network class or, for a form, of ``timm.create_model`` with :attr:`timm_name`.

        For segmentation the head reads every token.
        """
        values = self.to_dict()
        values.pop("form", None)
        del values["stages"]
        tokens = {"global_pool": ""} if values.pop("kind") == "segmentation" else {}
        return values | tokens

    def build(self, device: str | None = None, drop_rate: float = 0.0) -> ViTNetwork:
        """Build the timm model with timm's own random initialization.

        The stochastic depth of the last layer, ``drop_rate``, rises linearly from 0.

        Returns:
            The model, (B, C, H, W) -> logits (B, K), or (B, K, H, W) for segmentation. With ``stages`` the layers of a
            stage are one module.
        """
        args = self.timm_args() | {"drop_path_rate": drop_rate}
        model: ViTNetwork
        if self.form:
            model = build_form(self.form, device, args)
            if self.kind == "segmentation":
                segmenting(model)
        else:
            network = SegmentationViT if self.kind == "segmentation" else VisionTransformer
            with building_on(device):
                model = network(**args)
        self.share_stages(model)
        return model

    def example_input(self, device: str = "meta") -> Tensor:
        """One image, (1, C, H, W)."""
        return torch.empty(1, self.in_chans, *height_width(self.img_size), device=device)

    def axes_of_one_layer(self) -> Mapping[str, Axes]:
        """See :class:`~lgx.architectures.base.Architecture`."""
        return _axes_of_one_layer(self.unshared().replace(depth=1))


@lru_cache(maxsize=64)
def _axes_of_one_layer(architecture: ViTArchitecture) -> dict[str, Axes]:
    def build(embed_dim: int, num_heads: int, mlp_ratio: float) -> ViTNetwork:
        return architecture.replace(embed_dim=embed_dim, num_heads=num_heads, mlp_ratio=mlp_ratio).build("meta")

    return read_axes(build, architecture.embed_dim, architecture.num_heads, architecture.mlp_ratio)


def _grid_of(embedding: Tensor, num_prefix_tokens: int, source: Architecture | None) -> tuple[int, int] | None:
    """Rows and columns of a position embedding (1, P + rows * columns, D); None if they are unknown.

    Args:
        embedding: The position embedding.
        num_prefix_tokens: Prefix tokens that have a position, P.
        source: Gives the grid if it has as many patches; otherwise the grid is a square.
    """
    patches = embedding.shape[1] - num_prefix_tokens
    if isinstance(source, ViTArchitecture) and math.prod(source.grid) == patches:
        return source.grid
    side = math.isqrt(patches)
    return (side, side) if side**2 == patches else None


def vit_only(architecture: Architecture, what: str) -> ViTArchitecture:
    """Return the architecture if it is a ViT.

    Args:
        architecture: Any architecture.
        what: Name of the caller, for the message.
    """
    if not isinstance(architecture, ViTArchitecture):
        raise UserError(f"{what}: is for image models, but {name_of(architecture)} reads text")
    return architecture


_SIZES = {"Tiny": (192, 3), "Small": (384, 6), "Base": (768, 12)}
_AUX = (3, 3, 4, 3, 3)
_DEPTHS = range(1, 25)

NAMES: dict[str, ViTArchitecture] = {
    **{f"{depth}-{size}": ViTArchitecture(depth, *_SIZES[size]) for size, depth in product(_SIZES, _DEPTHS)},
    **{f"Des-{size[0]}-{depth}": ViTArchitecture(depth, *_SIZES[size]) for size, depth in product(_SIZES, _DEPTHS)},
    **{f"Aux-{size[0]}": ViTArchitecture(sum(_AUX), *width, stages=_AUX) for size, width in _SIZES.items()},
}
"""``12-Base`` (TAL), ``Des-B-12`` and ``Aux-B`` (SWS: 5 stages of 3, 3, 4, 3, 3 layers). 224 px, 1000 classes."""

register_family(ViTArchitecture, NAMES)
