"""Several computational graphs in one padded batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lgx.errors import UserError
from lgx.hypernet.graph import Graph


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

        Raises:
            UserError: If the list is empty.
        """
        if not graphs:
            raise UserError("a hypernetwork needs at least one architecture, got an empty list")
        count, most = len(graphs), max(len(graph.nodes) for graph in graphs)
        ops = torch.zeros(count, most, dtype=torch.long)
        shapes = torch.zeros(count, most, 4, dtype=torch.long)
        distances = torch.zeros(count, most, most, dtype=torch.long)
        mask = torch.zeros(count, most, dtype=torch.bool)
        for g, graph in enumerate(graphs):
            n = len(graph.nodes)
            ops[g, :n] = graph.ops
            shapes[g, :n] = torch.tensor([_four_sizes(node.shape) for node in graph.nodes])
            distances[g, :n, :n] = graph.distances
            mask[g, :n] = True
        return cls(ops, shapes, distances, mask)

    def to(self, device: torch.device) -> "GraphBatch":
        """Copy the batch to a device."""
        return GraphBatch(*(t.to(device) for t in (self.ops, self.shapes, self.distances, self.mask)))


def _four_sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as (out, in, kernel height, kernel width); a vector has one input channel."""
    return (*shape, 1, 1, 1)[:4] if shape else (0, 0, 0, 0)
