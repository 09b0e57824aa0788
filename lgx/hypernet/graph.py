"""Computational graphs: what a hypernetwork reads of an architecture (Knyazev et al., 2021, 2023).

Nodes are operations, edges the forward flow; all-pairs shortest-path lengths are the edge values. The graph of a ViT
or GPT-2 follows from its description, so it is built without tracing a model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lgx.architectures import Architecture, GPT2Architecture, ViTArchitecture, name_of
from lgx.errors import UserError

VOCABULARY = (
    "max_pool", "avg_pool", "sep_conv", "dil_conv", "conv", "msa", "cse", "sum", "concat", "input", "bias", "bn", "ln",
    "pos_enc", "glob_avg",
)  # fmt: skip
"""Operations of GHN-3's vocabulary, in its order. A ViT's or GPT-2's every weight matrix is a ``conv``; a look-up of
tokens too, for it is a linear map of one-hot vectors."""

MAX_PATH = 254
"""Longest path between two nodes that GHN-3's encoder has an embedding for."""

Convention = Literal["msa", "plain"]
Form = Literal["linear", "transposed", "table"]


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
        form: How the model holds a matrix of shape (out, in): ``linear`` as it is; ``transposed`` as (in, out), like
            transformers' ``Conv1D``; a ``table``, whose rows are looked up, as (rows, width).
    """

    op: str
    parameter: str | None = None
    shape: tuple[int, ...] = ()
    head: bool = False
    parts: int = 1
    form: Form = "linear"


def is_vocabulary(node: Node) -> bool:
    """Whether a node holds a table of tokens, not of positions."""
    return node.form == "table" and node.op == "conv"


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


def computational_graph(architecture: Architecture, convention: Convention = "msa", cutoff: int = 50) -> Graph:
    """The graph of a ViT or a GPT-2.

    Per layer: ``ln -> qkv -> bias -> [msa] -> proj -> bias -> sum -> ln -> fc1 -> bias -> fc2 -> bias -> sum`` with an
    edge from each ``sum`` to the next. LayerNorm biases and the class token are no nodes. Before the layers of a ViT:
    ``input -> patches -> bias -> sum`` and ``pos_enc -> sum``; of a GPT-2: ``input -> tokens -> sum`` and
    ``pos_enc -> sum``. Behind them: ``ln -> head -> bias``, without the bias in a GPT-2. The paper gives no graph for
    GPT-2; this is the ViT's, with what GPT-2 has instead.

    Args:
        architecture: The network.
        convention: ``msa`` has an attention node between the qkv bias and the projection (N = 13 L + 8, or 13 L + 6 for
            a GPT-2), the graph that GHN-3 intends; ``plain`` lacks it (L fewer), as its official tracer yields with the
            fused attention of torch >= 2.1.
        cutoff: Longest path that gets an edge value; 50 in GHN-3, at most :data:`MAX_PATH`.

    Returns:
        The graph; distances are cached.

    Raises:
        UserError: If the convention is unknown, the cutoff out of range, or the architecture none, without a class
            head, or one that shares layers.
    """
    if not isinstance(architecture, ViTArchitecture | GPT2Architecture):
        raise UserError(
            f"architecture: expected a ViTArchitecture or GPT2Architecture, got {architecture!r}; "
            f"lgx.architectures.parse_architecture makes one of a name"
        )
    if convention not in ("msa", "plain"):
        raise UserError(f"convention must be msa or plain, got {convention!r}")
    if isinstance(architecture, GPT2Architecture):
        distances = _distances(_GPT2_STEM, architecture.depth, 2, convention, cutoff)
        return Graph(_gpt2_nodes(architecture, convention), distances)
    if architecture.stages is not None:
        raise UserError(
            f"architecture {name_of(architecture)}: has layers that share weights, which hypernetworks do not predict; "
            f"leave out stages"
        )
    if architecture.num_classes < 1:
        raise UserError(
            f"architecture {name_of(architecture)}: has no class head (num_classes 0), but hypernetworks predict one; "
            f"give it at least 1 class"
        )
    distances = _distances(_VIT_STEM, architecture.depth, 3, convention, cutoff)
    return Graph(_vit_nodes(architecture, convention), distances)


def _vit_nodes(a: ViTArchitecture, convention: Convention) -> tuple[Node, ...]:
    width, hidden, grid = a.embed_dim, int(a.embed_dim * a.mlp_ratio), a.img_size // a.patch_size
    nodes = [
        Node("input"),
        *_linear("patch_embed.proj", width, a.in_chans, a.patch_size, a.patch_size),
        Node("pos_enc", "pos_embed", (1, width, grid, grid)),
        Node("sum"),
    ]
    for i in range(a.depth):
        names = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
        nodes += _layer([f"blocks.{i}.{name}" for name in names], width, hidden, convention)
    head = [replace(node, head=True) for node in _linear("head", a.num_classes, width)]
    return (*nodes, Node("ln", "norm.weight", (width,)), *head)


def _gpt2_nodes(a: GPT2Architecture, convention: Convention) -> tuple[Node, ...]:
    width = a.embed_dim
    nodes = [
        Node("input"),
        Node("conv", "transformer.wte.weight", (a.vocab_size, width), form="table"),
        Node("pos_enc", "transformer.wpe.weight", (a.max_len, width), form="table"),
        Node("sum"),
    ]
    for i in range(a.depth):
        names = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
        nodes += _layer([f"transformer.h.{i}.{name}" for name in names], width, 4 * width, convention, "transposed")
    head = Node("conv", "score.weight", (a.num_classes, width), head=True)
    return (*nodes, Node("ln", "transformer.ln_f.weight", (width,)), head)


def _layer(
    names: Sequence[str], width: int, hidden: int, convention: Convention, form: Form = "linear"
) -> Iterator[Node]:
    """One transformer layer.

    Args:
        names: Names of norm, qkv, projection, norm, fc1 and fc2 in the model.
        width: D.
        hidden: Hidden width of the MLP.
        convention: See :func:`computational_graph`.
        form: How the model holds its matrices.
    """
    norm1, qkv, proj, norm2, fc1, fc2 = names
    yield Node("ln", f"{norm1}.weight", (width,))
    yield from (replace(node, parts=3) for node in _linear(qkv, 3 * width, width, form=form))
    if convention == "msa":
        yield Node("msa")
    yield from _linear(proj, width, width, form=form)
    yield Node("sum")
    yield Node("ln", f"{norm2}.weight", (width,))
    yield from _linear(fc1, hidden, width, form=form)
    yield from _linear(fc2, width, hidden, form=form)
    yield Node("sum")


def _linear(name: str, out: int, *rest: int, form: Form = "linear") -> tuple[Node, Node]:
    return Node("conv", f"{name}.weight", (out, *rest), form=form), Node("bias", f"{name}.bias", (out,))


Stem = tuple[tuple[int, ...], ...]
_VIT_STEM: Stem = ((), (0,), (1,), (), (2, 3))
_GPT2_STEM: Stem = ((), (0,), (), (1, 2))


@lru_cache(maxsize=256)
def _distances(stem: Stem, depth: int, tail: int, convention: Convention, cutoff: int) -> Tensor:
    """Path lengths of a transformer.

    Args:
        stem: Predecessors of each node up to the sum with the position embedding.
        depth: Number of layers.
        tail: Nodes in a row behind the last layer.
        convention: See :func:`computational_graph`.
        cutoff: Likewise.
    """
    attention = 6 if convention == "msa" else 5  # nodes between one sum and the next
    predecessors = list(stem)
    for _ in range(depth):
        for between in (attention, 5):
            skip = len(predecessors) - 1
            predecessors += [(skip + k,) for k in range(between)]
            predecessors.append((skip + between, skip))
    predecessors += [(len(predecessors) - 1 + k,) for k in range(tail)]
    return torch.from_numpy(shortest_paths(predecessors, cutoff))


def forget_distances() -> None:
    """Empty the cache, so that the next graph is built cold."""
    _distances.cache_clear()


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

    Raises:
        UserError: If the cutoff is none that encoders know.
    """
    if not 1 <= cutoff <= MAX_PATH:
        raise UserError(f"cutoff: must be between 1 and {MAX_PATH}, got {cutoff}")
    count, far = len(predecessors), np.iinfo(np.int16).max - 1
    lengths = np.full((count, count), far, dtype=np.int16)
    for node, before in enumerate(predecessors):
        for other in before:
            np.minimum(lengths[:, node], lengths[:, other] + 1, out=lengths[:, node])
        lengths[node, node] = 0
    lengths[lengths > cutoff] = 0
    return lengths
