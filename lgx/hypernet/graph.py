"""Computational graphs: what a hypernetwork reads of an architecture (Knyazev et al., 2021, 2023).

Nodes are operations, edges the forward flow; all-pairs shortest-path lengths are the edge values. The graph of a ViT
follows from its description, so it is built without tracing a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lgx.architectures.vit import ViTArchitecture
from lgx.errors import UserError

VOCABULARY = (
    "max_pool", "avg_pool", "sep_conv", "dil_conv", "conv", "msa", "cse", "sum", "concat", "input", "bias", "bn", "ln",
    "pos_enc", "glob_avg",
)  # fmt: skip
"""Operations of GHN-3's vocabulary, in its order. A ViT's every weight matrix is a ``conv``."""

Convention = Literal["msa", "plain"]


@dataclass(frozen=True)
class Node:
    """One operation.

    Attributes:
        op: Word of :data:`VOCABULARY`.
        parameter: Name in the model of the parameter that it holds; None for ``input``, ``sum``, ``msa``, ...
        shape: Shape of that parameter as the hypernetwork reads it; the position embedding (1, 1 + s², D) as
            (1, D, s, s). Empty without a parameter.
        head: Whether the parameter belongs to the class head.
        parts: Matrices of one kind that lie one behind the other in it: 3 for queries, keys and values, else 1.
    """

    op: str
    parameter: str | None = None
    shape: tuple[int, ...] = ()
    head: bool = False
    parts: int = 1


@dataclass(frozen=True)
class Graph:
    """A directed acyclic graph in topological order.

    Attributes:
        nodes: The N operations; node 0 is the input.
        distances: Shortest-path length from row to column, 0 where there is none or it exceeds the cutoff; int16,
            (N, N), strictly upper triangular.
    """

    nodes: tuple[Node, ...]
    distances: Tensor

    @property
    def ops(self) -> Tensor:
        """Indices into :data:`VOCABULARY`, int64, (N,)."""
        return torch.tensor([VOCABULARY.index(node.op) for node in self.nodes])


def computational_graph(architecture: ViTArchitecture, convention: Convention = "msa", cutoff: int = 50) -> Graph:
    """The graph of a ViT.

    Per layer: ``ln -> qkv -> bias -> [msa] -> proj -> bias -> sum -> ln -> fc1 -> bias -> fc2 -> bias -> sum`` with an
    edge from each ``sum`` to the next. LayerNorm biases and the class token are no nodes.

    Args:
        architecture: The ViT.
        convention: ``msa`` has an attention node between the qkv bias and the projection (N = 13 L + 8), the graph
            that GHN-3 intends; ``plain`` lacks it (N = 12 L + 8), as its official tracer yields with the fused
            attention of torch >= 2.1.
        cutoff: Longest path that gets an edge value; 50 in GHN-3.

    Returns:
        The graph; cached by (depth, convention, cutoff) but for the parameter shapes.

    Raises:
        UserError: If the convention is unknown, or the architecture has no class head or shares layers.
    """
    if convention not in ("msa", "plain"):
        raise UserError(f"convention must be msa or plain, got {convention!r}")
    if architecture.stages is not None:
        raise UserError(
            f"architecture {architecture.name}: has layers that share weights, which hypernetworks do not predict; "
            f"leave out stages"
        )
    if architecture.num_classes < 1:
        raise UserError(
            f"architecture {architecture.name}: has no class head (num_classes 0), but hypernetworks predict one; "
            f"give it at least 1 class"
        )
    return Graph(_nodes(architecture, convention), _vit_distances(architecture.depth, convention, cutoff))


def _nodes(a: ViTArchitecture, convention: Convention) -> tuple[Node, ...]:
    width, hidden, grid = a.embed_dim, int(a.embed_dim * a.mlp_ratio), a.img_size // a.patch_size
    sum_, attention = Node("sum"), [Node("msa")] if convention == "msa" else []

    def linear(name: str, out: int, *rest: int) -> list[Node]:
        return [Node("conv", f"{name}.weight", (out, *rest)), Node("bias", f"{name}.bias", (out,))]

    nodes = [
        Node("input"),
        *linear("patch_embed.proj", width, a.in_chans, a.patch_size, a.patch_size),
        Node("pos_enc", "pos_embed", (1, width, grid, grid)),
        sum_,
    ]
    for i in range(a.depth):
        block = f"blocks.{i}"
        nodes += [
            Node("ln", f"{block}.norm1.weight", (width,)),
            *(replace(node, parts=3) for node in linear(f"{block}.attn.qkv", 3 * width, width)),
            *attention,
            *linear(f"{block}.attn.proj", width, width),
            sum_,
            Node("ln", f"{block}.norm2.weight", (width,)),
            *linear(f"{block}.mlp.fc1", hidden, width),
            *linear(f"{block}.mlp.fc2", width, hidden),
            sum_,
        ]
    head = [replace(node, head=True) for node in linear("head", a.num_classes, width)]
    return (*nodes, Node("ln", "norm.weight", (width,)), *head)


@lru_cache(maxsize=256)
def _vit_distances(depth: int, convention: Convention, cutoff: int) -> Tensor:
    """Distances depend on the depth alone."""
    attention = 6 if convention == "msa" else 5  # nodes between one sum and the next
    predecessors: list[tuple[int, ...]] = [(), (0,), (1,), (), (2, 3)]
    for _ in range(depth):
        for between in (attention, 5):
            skip = len(predecessors) - 1
            predecessors += [(skip + k,) for k in range(between)]
            predecessors.append((skip + between, skip))
    predecessors += [(len(predecessors) - 1 + k,) for k in range(3)]
    return torch.from_numpy(shortest_paths(predecessors, cutoff))


def forget_distances() -> None:
    """Empty the cache, so that the next graph is built cold."""
    _vit_distances.cache_clear()


def shortest_paths(
    predecessors: Sequence[Sequence[int]], cutoff: int
) -> "np.ndarray[tuple[int, int], np.dtype[np.int16]]":
    """All-pairs shortest-path lengths of a DAG whose nodes are in topological order.

    One pass: the distance to a node is one more than the least distance to any of its predecessors.

    Args:
        predecessors: For each node the nodes with an edge to it, all of lower index.
        cutoff: Longer paths count as none.

    Returns:
        int16, (N, N); 0 where there is no path.
    """
    count, far = len(predecessors), np.iinfo(np.int16).max - 1
    lengths = np.full((count, count), far, dtype=np.int16)
    for node, before in enumerate(predecessors):
        for other in before:
            np.minimum(lengths[:, node], lengths[:, other] + 1, out=lengths[:, node])
        lengths[node, node] = 0
    lengths[lengths > cutoff] = 0
    return lengths
