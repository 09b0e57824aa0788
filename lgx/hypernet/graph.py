"""Computational graphs: the description of an architecture that a hypernetwork reads (Knyazev et al., 2021, 2023).

Nodes are operations and edges follow the forward pass. Shortest-path lengths between all pairs of nodes are the edge
features.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

PRIMITIVES = (
    "max_pool", "avg_pool", "sep_conv", "dil_conv", "conv", "msa", "cse", "sum", "concat", "input", "bias", "bn", "ln",
    "pos_enc", "glob_avg",
)  # fmt: skip
"""The operations that GHN-3 knows, in its order; a node's feature is its index here.

Every weight matrix of a ViT or GPT-2 is a ``conv``. A token embedding is one too: it is a linear map of one-hot
vectors.
"""

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
        distances: Length of the shortest path from the node of the row to the node of the column, int16, (N, N),
            strictly upper triangular; 0 if there is no path or it is longer than the cutoff.
    """

    nodes: tuple[Node, ...]
    distances: Tensor

    @property
    def ops(self) -> Tensor:
        """Index of each node's operation in :data:`PRIMITIVES`, int64, (N,)."""
        return torch.tensor([PRIMITIVES.index(node.op) for node in self.nodes])
