"""Computational graphs: the description of an architecture that a hypernetwork reads (Knyazev et al., 2021, 2023).

Nodes are operations and edges follow the forward pass. Shortest-path lengths between all pairs of nodes are the edge
features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lgx.errors import UserError

PRIMITIVES = (
    "max_pool", "avg_pool", "sep_conv", "dil_conv", "conv", "msa", "cse", "sum", "concat", "input", "bias", "bn", "ln",
    "pos_enc", "glob_avg",
)  # fmt: skip
"""The operations that GHN-3 knows, in its order; a node's feature is its index here.

Every weight matrix of a ViT or GPT-2 is a ``conv``. A token embedding is one too: it is a linear map of one-hot
vectors.
"""

CUTOFF = 50
"""Longest path that is an edge feature, as in GHN-3; longer ones count as missing."""
Convention = Literal["msa", "plain"]
"""Whether graphs have a node for each attention (``msa``) or not (``plain``)."""
Form = Literal["linear", "transposed", "table"]
"""How a model stores a matrix; see :class:`Node`."""


@dataclass(frozen=True)
class Node:
    """One operation.

    Attributes:
        op: One of :data:`PRIMITIVES`.
        parameter: Name of its parameter in the model; None for ``input``, ``sum``, ``msa`` and others without one.
        shape: Shape of the parameter as the hypernetwork predicts it; empty without a parameter. A ViT's position
            embedding (1, 1 + s², D) is (1, D, s, s) here.
        head: Whether the parameter belongs to the classification head.
        fused: Number of matrices that the model concatenates in this parameter along its outputs: 3 for queries, keys
            and values, else 1.
        form: How the model stores a matrix of shape (out, in): ``linear`` as (out, in); ``transposed`` as (in, out),
            like ``Conv1D`` of transformers; ``table`` as (rows, width) of an embedding.
    """

    op: str
    parameter: str | None = None
    shape: tuple[int, ...] = ()
    head: bool = False
    fused: int = 1
    form: Form = "linear"


def is_token_embedding(node: Node) -> bool:
    """Whether a node's parameter embeds tokens; a table of positions does not."""
    return node.form == "table" and node.op == "conv"


@dataclass(frozen=True)
class Graph:
    """A directed acyclic graph in topological order.

    Attributes:
        nodes: The N operations; node 0 is the input.
        lengths: Length of the shortest path from the node of the row to the node of the column, int16, (N, N),
            strictly upper triangular; 0 if there is no path or it is longer than :data:`CUTOFF`. NumPy's, because a
            plan builds graphs where torch makes tensors without values.
    """

    nodes: tuple[Node, ...]
    lengths: NDArray[np.int16]

    @property
    def distances(self) -> Tensor:
        """The lengths as a tensor."""
        return torch.from_numpy(self.lengths)

    @property
    def ops(self) -> Tensor:
        """Index of each node's operation in :data:`PRIMITIVES`, int64, (N,)."""
        return torch.tensor([PRIMITIVES.index(node.op) for node in self.nodes])


def shortest_paths(predecessors: Sequence[Sequence[int]]) -> NDArray[np.int16]:
    """Lengths of the shortest paths between all pairs of nodes of a directed acyclic graph.

    One pass in topological order suffices: the distance to a node is one more than the smallest distance to any of its
    predecessors.

    Args:
        predecessors: For each of the N nodes the nodes with an edge to it; all have a lower index.

    Returns:
        int16, (N, N), from the node of the row to the node of the column; 0 if there is no path, or one that is longer
        than :data:`CUTOFF`.
    """
    count, far = len(predecessors), np.iinfo(np.int16).max - 1
    lengths = np.full((count, count), far, dtype=np.int16)
    for node, before in enumerate(predecessors):
        for other in before:
            np.minimum(lengths[:, node], lengths[:, other] + 1, out=lengths[:, node])
        lengths[node, node] = 0
    lengths[lengths > CUTOFF] = 0
    return lengths


@dataclass(frozen=True)
class GraphBatch:
    """G graphs, padded to N nodes.

    Attributes:
        ops: Operation of each node, int64, (G, N).
        shapes: (out, in, kernel height, kernel width) of each node's parameter, int64, (G, N, 4); zeros without one.
        distances: Path lengths, int64, (G, N, N).
        mask: True for nodes, False for padding, (G, N).
    """

    ops: Tensor
    shapes: Tensor
    distances: Tensor
    mask: Tensor

    @classmethod
    def from_graphs(cls, graphs: Sequence[Graph]) -> "GraphBatch":
        """Pad graphs to a batch.

        Args:
            graphs: G graphs; N is the number of nodes of the largest.
        """
        if not graphs:
            raise UserError("a hypernetwork needs at least one architecture, got an empty list")
        most = max(len(graph.nodes) for graph in graphs)
        shapes = [torch.tensor([_four_sizes(node.shape) for node in graph.nodes]) for graph in graphs]
        missing = [most - len(graph.nodes) for graph in graphs]
        distances = [F.pad(graph.distances.long(), (0, n, 0, n)) for graph, n in zip(graphs, missing, strict=True)]
        masks = [torch.ones(len(graph.nodes), dtype=torch.bool) for graph in graphs]
        ops, sizes, mask = (pad_sequence(part, True) for part in ([graph.ops for graph in graphs], shapes, masks))
        return cls(ops, sizes, torch.stack(distances), mask)

    def to(self, device: torch.device) -> "GraphBatch":
        """Copy the batch to a device."""
        return GraphBatch(*(t.to(device) for t in (self.ops, self.shapes, self.distances, self.mask)))


def _four_sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as (out, in, kernel height, kernel width); a vector has one input channel."""
    return (*shape, 1, 1, 1)[:4] if shape else (0, 0, 0, 0)
