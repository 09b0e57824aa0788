"""Weight selection: evenly spaced elements of a larger network."""

from collections.abc import Collection, Mapping
from typing import cast

import torch
from timm.models.convnext import ConvNeXt, ConvNeXtStage
from torch import Tensor, nn

from lgx.architectures import Architecture, vit_only
from lgx.architectures.library_models import LibraryModel
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Head, Sizes
from lgx.initialization.expansion import take_layers
from lgx.initialization.width import evenly, narrow, take_evenly
from lgx.methods.baselines.from_source import FromSource


def select_convnext(source: nn.Module, model: nn.Module, names: tuple[str, str], head: Head) -> dict[str, Tensor]:
    """Evenly spaced elements of every parameter of the first blocks of each stage.

    Xu et al., "Initializing Models with Larger Ones", ICLR 2024, Sec. 3: in networks of stages, first-N layer selection
    applies to each stage. timm's ConvNeXts have MLPs of linear layers or of 1 x 1 convolutions. Both are the same
    matrix, so one can be selected from the other.

    Args:
        source: The trained ConvNeXt.
        model: The ConvNeXt to initialize.
        names: The user's names of source and model.
        head: ``new`` leaves out the classifier.

    Returns:
        Parameters under the model's names.
    """
    larger, smaller = (_convnext(each, name) for each, name in zip((source, model), names, strict=True))
    tensors, expected = dict(larger.named_parameters()), dict(smaller.named_parameters())
    classifier: nn.Module = smaller.get_classifier()
    prefixes = tuple(f"{prefix}." for prefix, module in smaller.named_modules() if module is classifier)
    if head == "new":
        expected = {key: parameter for key, parameter in expected.items() if not key.startswith(prefixes)}
    elif larger.num_classes != smaller.num_classes:
        raise UserError(
            f"weight_selection: the head of {names[0]} has {larger.num_classes} classes, but {names[1]} has "
            f"{smaller.num_classes}; give it a new head (`--head {smaller.num_classes}`)"
        )
    return _selected(tensors, expected, names, prefixes)


def _convnext(model: nn.Module, name: str) -> ConvNeXt:
    if not isinstance(model, ConvNeXt):
        raise UserError(
            f"weight_selection: supports ViTs and timm's ConvNeXts, but {name} is a {type(model).__name__}; choose a "
            "source and an architecture of one family"
        )
    return model


def _selected(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], names: tuple[str, str], head: tuple[str, ...]
) -> dict[str, Tensor]:
    name, target = names
    blocks = {key.split(".", 4)[-1] for key in expected if ".blocks." in key}
    left = [k for k in tensors if k not in expected and not k.startswith(head) and k.split(".", 4)[-1] not in blocks]
    if left:
        raise UserError(
            f"weight_selection: {target} is another kind of ConvNeXt than {name}: it has no {left[0]}; choose the same "
            "kind"
        )
    selected = {}
    for key, parameter in expected.items():
        tensor = tensors.get(key, torch.empty(0)).detach()
        if {tensor.ndim, parameter.ndim} == {2, 4}:  # a linear layer and a 1 x 1 convolution
            tensor = tensor[:, :, None, None] if tensor.ndim == 2 else tensor.flatten(1)
        if tensor.ndim != parameter.ndim or any(a < b for a, b in zip(tensor.shape, parameter.shape, strict=True)):
            raise UserError(
                f"weight_selection: {target} is not a part of {name}: {key} is {tuple(parameter.shape)}, in the "
                f"source {tuple(tensor.shape) if key in tensors else 'missing'}; choose a narrower or shallower model "
                "of the same kind"
            )
        selected[key] = take_evenly(tensor, tuple(parameter.shape))
    return selected


def depths(model: ConvNeXt) -> list[int]:
    """Number of blocks of each stage."""
    return [len(cast(ConvNeXtStage, stage).blocks) for stage in model.stages]


def _listed(numbers: list[int]) -> str:
    return "-".join(map(str, numbers))


class WeightSelection(FromSource):
    """Evenly spaced elements of the ancestor's first layers (weight selection; IMwLM in SWS's tables).

    The descendant's L layers are the ancestor's first L (the paper's "first-N layer selection"). Of every parameter,
    uniform element selection takes evenly spaced elements along every dimension, with the rule of the released code
    (:func:`~lgx.initialization.width.evenly_spaced`). The head is selected as well; the released code skips it. A new
    head gives the same.

    Queries, keys and values are each selected from their own third of the fused projection. The released code selects
    from the fused matrix as a whole. Both rules agree if one width divides the other. Otherwise, the fused rule takes
    different elements for keys and queries, although attention multiplies element i of a query with element i of a key.
    Our rule keeps such pairs together.

    ConvNeXts of timm (``timm:convnext_atto,img_size=64``) start from larger ConvNeXts: the first blocks of each stage.

    Xu et al., "Initializing Models with Larger Ones", ICLR 2024, https://arxiv.org/abs/2311.18823

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
    """

    method = "weight_selection"

    def sizes(self) -> Sizes:
        """Neither deeper nor wider than the source."""
        return Sizes.within(self.vit)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Selected elements of every parameter whose layer exists in the descendant."""
        self.check_depth(architecture.depth)
        if architecture.embed_dim == self.vit.embed_dim:  # narrower networks mix the elements of heads anyway
            self.check_heads(architecture)
        first = take_layers(self.loaded.tensors, range(architecture.depth))
        return narrow(first, self.vit, vit_only(architecture, self.method), evenly)

    def starts(self, described: LibraryModel) -> bool:
        """Whether the model is a ConvNeXt of timm."""
        return described.library == "timm" and isinstance(described.build("meta"), ConvNeXt)

    def start_model(
        self, model: nn.Module, described: LibraryModel, head: Head
    ) -> tuple[dict[str, Tensor], tuple[str, ...]]:
        """Selected elements for a ConvNeXt from a larger one."""
        if not self.starts(described):
            return super().start_model(model, described, head)
        source = self.loaded.model
        selected = select_convnext(source, model, (self.source, described.name), head)
        own, whole = (_listed(depths(cast(ConvNeXt, each))) for each in (model, source))
        return selected, (f"layers    the first {own} blocks of the stages of {whole}",)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers of the source were taken."""
        whole, own = self.vit.depth, vit_only(architecture, self.method).depth
        layers = f"all {whole} of the source" if own == whole else f"the first {own} of the source's {whole}"
        return (f"layers    {layers}",)
