"""Descendants that are pruned from an ancestor."""

import copy
import warnings
from typing import Any

import timm
from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.initialization import Sizes
from lgx.initialization.expansion import take_layers
from lgx.initialization.width import evenly_spaced
from lgx.methods.baselines.from_source import FromSource


class StructuredPruning(FromSource):
    """Remove the dimensions, heads and neurons with the smallest weights from an ancestor, everywhere alike.

    torch-pruning follows which elements of which parameters belong together (DepGraph), and ranks them by the norm of
    all their weights (group magnitude importance, its default), layer by layer: a dimension of the residual stream is
    removed from all parameters, a head or a neuron from its own layer. Every layer keeps as many heads and neurons as
    the descendant has. A shallower descendant has evenly spaced layers of the ancestor; the library prunes no layers,
    so that this rule is ours. The head is pruned with the residual stream.

    Fang et al., "DepGraph: Towards Any Structural Pruning", CVPR 2023, https://arxiv.org/abs/2301.12900

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
    """

    method = "structured_pruning"

    def sizes(self) -> Sizes:
        """Neither deeper nor wider than the source; of its width, where torch-pruning does not know its parts."""
        source = self.vit
        return Sizes.within(source) if can_be_pruned(source) else Sizes.of_any_depth(source, 1, source.depth)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The parameters that pruning leaves."""
        source = self.vit
        wanted = vit_only(architecture, self.method).unshared()
        self.check_depth(wanted.depth)
        head = source.embed_dim // source.num_heads
        if wanted.embed_dim != wanted.num_heads * head:
            raise UserError(
                f"{self.method}: heads are removed as a whole and keep their width of {head}; choose "
                f"num_heads={wanted.embed_dim // head}"
            )
        kept = take_layers(self.loaded.tensors, evenly_spaced(source.depth, wanted.depth))
        if wanted.embed_dim == source.embed_dim and wanted.mlp_ratio == source.mlp_ratio:
            self.check_heads(wanted)
            return kept
        if not can_be_pruned(source):
            raise UserError(
                f"{self.method}: {self.source} has parts that torch-pruning does not support (another attention, "
                f"gated MLPs or attention pooling); give the descendant its width of {source.embed_dim} and "
                f"mlp_ratio={source.mlp_ratio:g}"
            )
        return prune(source.replace(depth=wanted.depth), kept, wanted)


def can_be_pruned(architecture: ViTArchitecture) -> bool:
    """Whether a network has parts only whose dimensions torch-pruning follows.

    It knows timm's attention with one product for queries, keys and values, and MLPs of two layers; not the attention
    of EVA and DINOv3, gated MLPs, or attention pooling.
    """
    model: Any = architecture.build("meta")
    plain = type(model) is timm.models.VisionTransformer and model.attn_pool is None
    return plain and all(type(block.mlp) is timm.layers.Mlp for block in model.blocks)


def prune(source: ViTArchitecture, tensors: dict[str, Tensor], target: ViTArchitecture) -> dict[str, Tensor]:
    """Prune a network to the width, heads and MLPs of another one.

    Args:
        source: Architecture of the network.
        tensors: Its parameters.
        target: An architecture of the same depth, with a smaller width, fewer heads of the same width, or smaller MLPs.
    """
    with extra("pruning", "structured_pruning"):
        import torch_pruning
    model = copy.deepcopy(source.build()).eval()
    model.load_state_dict(tensors)
    blocks: list[Any] = [module for module in model.modules() if hasattr(module, "attn") and hasattr(module, "mlp")]
    neurons = [int(network.embed_dim * network.mlp_ratio) for network in (target, source)]
    hidden = {block.mlp.fc1: share_to_remove(*neurons) for block in blocks}
    for block in blocks:
        block.attn.fused_attn = False  # the graph of products is traced
    with warnings.catch_warnings():
        # It prunes the last dimension of tokens and positions, as it should.
        warnings.filterwarnings("ignore", "Unwrapped parameters")
        pruner = torch_pruning.pruner.BasePruner(
            model,
            source.example_input("cpu"),
            importance=torch_pruning.importance.GroupMagnitudeImportance(),
            pruning_ratio=share_to_remove(target.embed_dim, source.embed_dim),
            pruning_ratio_dict=hidden,
            head_pruning_ratio=share_to_remove(target.num_heads, source.num_heads),
            num_heads={block.attn.qkv: source.num_heads for block in blocks},
            prune_num_heads=True,
            prune_head_dims=False,
            ignored_layers=[module for name, module in model.named_modules() if name == source.head.rstrip(".")],
        )
    pruner.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def share_to_remove(kept: int, count: int) -> float:
    """The share to remove so that ``kept`` of ``count`` elements remain.

    It is that of half an element less, because torch-pruning rounds what remains down and removed heads up, and a
    quotient may be a bit too large.
    """
    return max(0.0, 1 - (kept + 0.5) / count)
