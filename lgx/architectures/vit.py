"""Vision transformers: description, timm model, parameter and MAC counts."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from einops import rearrange
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from lgx.core.batch import Kind, Task
from lgx.core.schema import shortened
from lgx.errors import UserError

LARGEST = {
    "depth": 1000, "embed_dim": 65_536, "num_heads": 65_536, "mlp_ratio": 1000, "patch_size": 65_536,
    "img_size": 65_536, "in_chans": 1000, "num_classes": 1_000_000, "tokens": 2**20,
}  # fmt: skip
"""Sizes beyond all use, which would take all time or memory: an architecture may come from a file of others."""


@dataclass(frozen=True)
class ViTArchitecture:
    """A plain ViT / DeiT under timm's parameter names.

    Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021; Touvron et al. (DeiT), 2021.

    Attributes:
        depth: Number of transformer layers L.
        embed_dim: Width d.
        num_heads: Attention heads; must divide ``embed_dim``.
        mlp_ratio: Hidden width of the MLP over ``embed_dim``.
        patch_size: Side of a patch, pixels; must divide ``img_size``.
        img_size: Side of the image, pixels.
        num_classes: Outputs of the head, K.
        in_chans: Image channels.
        stages: Layers that share one set of weights, per stage, front to back; their sum is ``depth``. None: no
            sharing. (SWS, Eq. 1; the architecture of an auxiliary net.)
        kind: What the head predicts: the class of an image, or for ``segmentation`` of every pixel.
        head: How the names of the head's parameters begin.
        layers: How those of the layers begin, before their numbers.

    Raises:
        UserError: If a value is not positive or values contradict each other.
    """

    depth: int = 12
    embed_dim: int = 192
    num_heads: int = 3
    mlp_ratio: float = 4.0
    patch_size: int = 16
    img_size: int = 224
    num_classes: int = 1000
    in_chans: int = 3
    stages: tuple[int, ...] | None = None
    kind: Kind = "classification"
    head: ClassVar[str] = "head."
    layers: ClassVar[str] = "blocks."

    def __post_init__(self) -> None:
        for name in ("depth", "embed_dim", "num_heads", "mlp_ratio", "patch_size", "img_size", "in_chans"):
            value = getattr(self, name)
            if type(value) is not int and not (name == "mlp_ratio" and type(value) is float):
                raise UserError(f"architecture: {name} must be a whole number, got {shortened(value)}")
            if not value > 0:  # nor a number that is none
                raise UserError(f"architecture: {name} must be positive, got {value}")
            if value > LARGEST[name]:
                raise UserError(f"architecture: {name} must be at most {LARGEST[name]:,}, got {shortened(value)}")
        if int(self.embed_dim * self.mlp_ratio) < 1:
            raise UserError(
                f"architecture: mlp_ratio {self.mlp_ratio} leaves the MLP no hidden width; choose a larger one"
            )
        if self.kind not in ("classification", "segmentation"):
            what = str(self.kind)[:40]
            raise UserError(f"architecture: a ViT is for classification or segmentation of images, not for {what}")
        if type(self.num_classes) is not int or not 0 <= self.num_classes <= LARGEST["num_classes"]:
            raise UserError(
                f"architecture: num_classes must be a whole number, 0 to {LARGEST['num_classes']:,}, got "
                f"{shortened(self.num_classes)}"
            )
        if self.embed_dim % self.num_heads:
            raise UserError(
                f"architecture: num_heads {self.num_heads} does not divide embed_dim {self.embed_dim}; "
                f"choose one that does"
            )
        if self.img_size % self.patch_size:
            raise UserError(
                f"architecture: patch_size {self.patch_size} does not divide img_size {self.img_size}; "
                f"choose one that does"
            )
        if (tokens := (self.img_size // self.patch_size) ** 2) > LARGEST["tokens"]:
            raise UserError(
                f"architecture: patches of {self.patch_size} px cut an image of {self.img_size} px into {tokens:,}; "
                f"choose larger ones"
            )
        if self.stages is not None:
            if not isinstance(self.stages, list | tuple) or any(type(size) is not int for size in self.stages):
                raise UserError(f"architecture: stages must be a list of whole numbers, got {shortened(self.stages)}")
            object.__setattr__(self, "stages", tuple(self.stages))
            if not self.stages or min(self.stages) < 1 or sum(self.stages) != self.depth:
                sizes = shortened(list(self.stages))
                raise UserError(f"architecture: stages {sizes} must be positive and sum to depth {self.depth}")

    @property
    def name(self) -> str:
        """The papers' name where there is one (``6-Small``), else the spec that :meth:`spec` gives."""
        from lgx.architectures.names import vit_name_of

        return vit_name_of(self.replace(kind="classification")) or self.spec()

    def spec(self) -> str:
        """``depth=6,embed_dim=64,...``: what differs from the defaults, readable by ``parse_architecture``.

        Depth, embed_dim and num_heads are always named; ``num_classes`` and ``kind`` never, they belong to the task.
        """
        default = ViTArchitecture()
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("num_classes", "kind"):
                continue
            if field.name in ("depth", "embed_dim", "num_heads") or value != getattr(default, field.name):
                text = "-".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"
                parts.append(f"{field.name}={text}")
        return ",".join(parts)

    def replace(self, **changes: Any) -> "ViTArchitecture":
        """A copy with some values changed."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, for JSON and checkpoints."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ViTArchitecture":
        """Inverse of :meth:`to_dict`.

        Raises:
            UserError: If a key is unknown.
        """
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            known = ", ".join(field.name for field in fields(cls))
            raise UserError(f"architecture: unknown key(s) {', '.join(sorted(unknown))[:200]}; known are {known}")
        return cls(**values)

    def check_task(self, task: Task, what: str) -> None:
        """Refuse a task whose images or number of classes are other than the network's.

        Args:
            task: The task.
            what: What has this architecture, for the message.

        Raises:
            UserError: If image size, channels or number of classes differ.
        """
        if (self.img_size, self.in_chans, self.num_classes) != (task.img_size, task.in_chans, task.num_classes):
            raise UserError(
                f"{what}: reads {self.in_chans} channels of {self.img_size} px for {self.num_classes} classes, but "
                f"task {task.name} gives {task.in_chans} channels of {task.img_size} px and {task.num_classes} "
                f"classes; write arch …,img_size={task.img_size},in_chans={task.in_chans} or set data.img_size"
            )

    def timm_args(self) -> dict[str, Any]:
        """Arguments of timm's ``VisionTransformer``; for segmentation its head then reads every token."""
        values = self.to_dict()
        del values["stages"]
        tokens = {"global_pool": ""} if values.pop("kind") == "segmentation" else {}
        return values | tokens

    def build(self, device: str | None = None, drop_path_rate: float = 0.0) -> VisionTransformer:
        """Build the timm model, with timm's own random start.

        Args:
            device: ``meta`` builds shapes without memory.
            drop_path_rate: Stochastic depth of the last layer, rising linearly from 0.

        Returns:
            The model, (B, C, H, W) -> logits (B, K), or (B, K, H, W) for segmentation. With ``stages`` the layers of a
            stage are one module.
        """
        network = SegmentationViT if self.kind == "segmentation" else VisionTransformer
        with torch.device(device or "cpu"):
            model = network(**self.timm_args(), drop_path_rate=drop_path_rate)
        if self.stages is not None:
            share_stages(model, self.stages)
        return model

    def count_parameters(self) -> int:
        """Number of parameters; shared ones count once."""
        return sum(p.numel() for p in self.build("meta").parameters())

    def count_macs(self) -> int:
        """Multiply-accumulates of one image's forward pass, attention products included (the papers' "FLOPs")."""
        model = self.build("meta").eval()
        image = torch.empty(1, self.in_chans, self.img_size, self.img_size, device="meta")
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(image)
        return int(counter.get_total_flops()) // 2


class SegmentationViT(VisionTransformer):
    """A ViT with a linear decoder: images (B, C, H, W) -> logits (B, K, H, W), under timm's parameter names.

    The head scores the classes of every patch token behind the last norm, and the scores are upsampled bilinearly to
    the pixels (Strudel et al., "Segmenter", 2021, its linear decoder). The class token takes part in attention alone.
    The papers on learngenes do not say which decoder they put on their descendants; this is the smallest one, so that
    what is compared are the descendants.
    """

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits (B, K, H, W) of normalized tokens (B, 1 + N, D); ``pre_logits``: the mean patch token (B, D)."""
        patches = x[:, self.num_prefix_tokens :]
        return patches.mean(dim=1) if pre_logits else decode_linearly(self.head_drop(patches), self.head, self)


def decode_linearly(patches: Tensor, head: nn.Module, vit: VisionTransformer) -> Tensor:
    """Class scores of every pixel from patch tokens.

    Args:
        patches: Normalized patch tokens, (B, N, D).
        head: D -> K.
        vit: Whose grid and image size they have.

    Returns:
        Logits, (B, K, H, W).
    """
    rows, columns = cast(tuple[int, int], vit.patch_embed.grid_size)
    scores = rearrange(head(patches), "b (r c) k -> b k r c", r=rows, c=columns)
    return F.interpolate(scores, size=vit.patch_embed.img_size, mode="bilinear", align_corners=False)


def share_stages(model: VisionTransformer, stages: tuple[int, ...]) -> None:
    """Let the layers of each stage share the weights of the stage's first layer, in place (SWS, Eq. 1).

    Gradients of a shared layer sum over its uses; ``parameters()`` yields it once, ``state_dict()`` names it at
    every use.
    """
    blocks, start = [], 0
    for size in stages:
        blocks += [model.blocks[start]] * size
        start += size
    model.blocks = nn.Sequential(*blocks)
