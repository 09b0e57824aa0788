"""Computational graphs: the description of an architecture that a hypernetwork reads (Knyazev et al., 2021, 2023).

Nodes are operations and edges follow the forward pass. Shortest-path lengths between all pairs of nodes are the edge
features.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lgx.architectures import Architecture, HFArchitecture, ViTArchitecture, name_of, vit_only
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
TEXT_STD = 0.02
"""Standard deviation of the initial weights of GPT-2 (Radford et al., 2019), Llama and their successors."""


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
            like ``Conv1D`` of transformers; ``table`` as (rows, width) of an embedding, or of a head for tokens.
        std: Standard deviation of the predicted matrix; None: that of He initialization.
        branch: The branch of the layer whose output a matrix projects to the residual stream; empty for others.
        has_bias: Whether a norm has a bias, which its node predicts as well.
    """

    op: str
    parameter: str | None = None
    shape: tuple[int, ...] = ()
    head: bool = False
    fused: int = 1
    form: Form = "linear"
    std: float | None = None
    branch: Literal["", "attention", "mlp"] = ""
    has_bias: bool = True


def has_token_rows(node: Node) -> bool:
    """Whether a node's parameter has a row for each token; a table of positions has not."""
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
    def ops(self) -> NDArray[np.int64]:
        """Index of each node's operation in :data:`PRIMITIVES`, (N,)."""
        return np.array([PRIMITIVES.index(node.op) for node in self.nodes])

    @property
    def shapes(self) -> NDArray[np.int64]:
        """Shape of each node's parameter, (N, 4); a vector has one input channel; 0 without a parameter."""
        return np.array([(*n.shape, 1, 1, 1)[:4] if n.shape else (0, 0, 0, 0) for n in self.nodes])


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
    count = len(predecessors)
    far = np.iinfo(np.int16).max - 1
    lengths = np.full((count, count), far, dtype=np.int16)
    for node, before in enumerate(predecessors):
        for other in before:
            np.minimum(lengths[:, node], lengths[:, other] + 1, out=lengths[:, node])
        lengths[node, node] = 0
    lengths[lengths > CUTOFF] = 0
    return lengths


MAX_DEGREE, MAX_INPUT_DISTANCE, MAX_PATH = 100, 1000, 254
"""Largest degree of a node, distance from the input and path length with an embedding of its own, as in GHN-3."""


@dataclass(frozen=True)
class GraphBatch:
    """G graphs, padded to N nodes.

    Attributes:
        shapes: (out, in, kernel height, kernel width) of each node's parameter, int64, (N, G, 4); zeros without one.
        places: Rows of each node's operation, in-degree, out-degree and distance from the input in their tables, one
            after the other, int64, (N, G, 4).
        lengths: Rows of the pairs of path lengths, forward and backward, that occur, int64, (P, 2). The table has two
            unused rows at its start, as in GHN-3; row 2 stands for "no path".
        pairs: Index of the lengths of each pair of nodes, int64, (G, N, N).
        padding: True for padding, (G, N); None without padding.
    """

    shapes: Tensor
    places: Tensor
    lengths: Tensor
    pairs: Tensor
    padding: Tensor | None

    @classmethod
    def from_graphs(cls, graphs: Sequence[Graph]) -> "GraphBatch":
        """Pad graphs to a batch.

        Args:
            graphs: G graphs; N is the number of nodes of the largest.
        """
        counts = [len(graph.nodes) for graph in graphs]
        most = max(counts)
        ops = np.zeros((len(graphs), most), np.int64)
        shapes = np.zeros((most, len(graphs), 4), np.int64)
        distances = np.zeros((len(graphs), most, most), np.int64)
        for g, graph in enumerate(graphs):
            ops[g, : counts[g]] = graph.ops
            shapes[: counts[g], g] = graph.shapes
            distances[g, : counts[g], : counts[g]] = graph.lengths
        edges = distances == 1
        in_degrees, out_degrees = (np.minimum(edges.sum(axis), MAX_DEGREE) for axis in (1, 2))
        starts = np.cumsum([0, len(PRIMITIVES), MAX_DEGREE + 1, MAX_DEGREE + 1])
        places = np.stack([part.T for part in (ops, in_degrees, out_degrees, distances[:, 0])], axis=2) + starts
        codes = distances * (CUTOFF + 1) + distances.swapaxes(1, 2)
        occurs = np.bincount(codes.ravel()) > 0
        lengths = np.stack(np.divmod(np.flatnonzero(occurs), CUTOFF + 1), axis=1) + 2
        pairs = (np.cumsum(occurs) - 1)[codes]
        parts: list[Any] = [torch.from_numpy(array) for array in (shapes, places, lengths, pairs)]
        padding = np.arange(most) >= np.array(counts)[:, None]
        parts.append(torch.from_numpy(padding) if padding.any() else None)
        return cls(*parts)

    def to(self, device: torch.device) -> "GraphBatch":
        """Copy the batch to a device."""
        parts: list[Any] = [None if part is None else part.to(device) for part in vars(self).values()]
        return GraphBatch(*parts)


def computational_graph(architecture: Architecture, convention: Convention = "msa") -> Graph:
    """Build the graph of a ViT (Knyazev et al., 2023), a GPT-2, or a decoder like Llama.

    Each layer is ``ln -> qkv -> bias -> [msa] -> proj -> bias -> sum -> ln -> fc1 -> bias -> fc2 -> bias -> sum``; each
    ``sum`` also has an edge to the next ``sum``. LayerNorm biases and the class token have no nodes. Before the layers,
    a ViT has ``input -> patches -> bias -> sum`` and ``pos_enc -> sum``, a GPT-2 has ``input -> tokens -> sum`` and
    ``pos_enc -> sum``. After the layers come ``ln -> head -> bias``, without the bias in a GPT-2. The papers give no
    graph for networks of texts; these adapt the ViT's.

    In a decoder like Llama, ``ln`` has an edge to each of queries, keys and values, and these to ``msa``; a norm of
    queries or keys follows its projection. Gate and neurons both have an edge from ``ln`` and one to ``fc2``. Rotary
    positions have no parameters, and ``tokens`` is the start of the residual stream. A head that shares the parameters
    of the token embedding has no node.

    Args:
        architecture: The network.
        convention: ``msa`` puts an attention node between the qkv bias and the projection, as GHN-3 intends. The graph
            then has 13 L + 8 nodes for L layers, 13 L + 6 for a GPT-2, or 12 L + 4 for a Llama. ``plain`` leaves these
            L nodes out, as GHN-3's official tracer does with the fused attention of torch >= 2.1.

    Returns:
        The graph. Its distances are cached and must not be changed.
    """
    if architecture.num_classes < 1:
        raise UserError(
            f"architecture {name_of(architecture)}: has no class head (num_classes 0), but hypernetworks predict one; "
            f"set num_classes to at least 1"
        )
    if architecture.stages is not None:
        raise UserError(
            f"architecture {name_of(architecture)}: has layers that share weights, which hypernetworks do not predict; "
            f"leave out stages"
        )
    if isinstance(architecture, HFArchitecture):
        of_text = _gpt2_graph if architecture.is_gpt2 else _decoder_graph
        return of_text(architecture, convention)
    architecture = vit_only(architecture, "hypernetworks")
    if not architecture.is_plain:
        raise UserError(
            f"architecture {name_of(architecture)}: hypernetworks predict plain ViTs, not form {architecture.form}"
        )
    lengths = path_lengths(_VIT_STEM, _BRANCHES[convention], architecture.depth, 3)
    return Graph(_vit_nodes(architecture, convention), lengths)


def _vit_nodes(a: ViTArchitecture, convention: Convention) -> tuple[Node, ...]:
    width = a.embed_dim
    hidden = int(a.embed_dim * a.mlp_ratio)
    nodes = [
        Node("input"),
        *_linear("patch_embed.proj", width, a.in_chans, a.patch_size, a.patch_size),
        Node("pos_enc", "pos_embed", (1, width, *a.grid)),
        Node("sum"),
    ]
    for i in range(a.depth):
        names = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
        nodes += _layer([f"blocks.{i}.{name}" for name in names], width, hidden, convention)
    head = [replace(node, head=True) for node in _linear("head", a.num_classes, width)]
    return (*nodes, Node("ln", "norm.weight", (width,)), *head)


def _gpt2_graph(a: HFArchitecture, convention: Convention) -> Graph:
    width = a.embed_dim
    nodes = [
        Node("input"),
        Node("conv", "transformer.wte.weight", (a.vocab_size, width), form="table", std=TEXT_STD),
        Node("pos_enc", "transformer.wpe.weight", (a.max_len, width), form="table", std=TEXT_STD),
        Node("sum"),
    ]
    for i in range(a.depth):
        names = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
        layer = _layer([f"transformer.h.{i}.{name}" for name in names], width, 4 * width, convention, "transposed")
        nodes += [replace(node, std=TEXT_STD) if node.op == "conv" else node for node in layer]
    nodes.append(Node("ln", "transformer.ln_f.weight", (width,)))
    head = [] if a.tied_names() else [_text_head(a, f"{'lm_head' if a.kind == 'language' else 'score'}.weight")]
    return Graph((*nodes, *head), path_lengths(_GPT2_STEM, _BRANCHES[convention], a.depth, 1 + len(head)))


def _text_head(a: HFArchitecture, name: str) -> Node:
    node = Node("conv", name, (a.num_classes, a.embed_dim), head=True)
    return replace(node, form="table", std=TEXT_STD) if a.kind == "language" else node


def _decoder_graph(a: HFArchitecture, convention: Convention) -> Graph:
    """The graph of a decoder like Llama, from the axes of its parameters and the order in which a layer calls them."""
    structure = a.structure
    first = f"{structure.layers}0."
    branches = _decoder_branches(a, convention)
    layer = [node for branch in branches for node in (*chain(*chain(*branch)), Node("sum"))]
    axes = {name: each for name, each in a.axes_of_one_layer().items() if not name.startswith(first)}
    nodes = [Node("input")]
    after = []
    for name, of_one in axes.items():
        if name == f"{structure.head}weight":
            after.append(_text_head(a, name))
        elif len(of_one) == 2:
            nodes.append(Node("conv", name, (a.vocab_size, a.embed_dim), form="table", std=TEXT_STD))
        elif name.endswith("weight"):
            after.append(Node("ln", name, (a.embed_dim,), has_bias=_bias_of(name) in axes))
    named = chain(*(_parameters(node) for node in (*nodes, *layer, *after)))
    is_like_llama = structure.is_causal and structure.has_rotary_positions and structure.has_plain_norms
    if not (branches and is_like_llama and len(nodes) == 2 and {*named} == structure.axes.keys()):
        raise UserError(
            f"architecture {name_of(a)}: hypernetworks predict ViTs, GPT-2s and decoders like Llama (norm, attention, "
            f"norm, MLP, without fused projections, with rotary positions), not this type; choose such a type"
        )
    for i in range(a.depth):
        of_layer = f"{structure.layers}{i}."
        nodes += [replace(n, parameter=n.parameter and n.parameter.replace(first, of_layer)) for n in layer]
    lengths = tuple(tuple(tuple(map(len, stage)) for stage in branch) for branch in branches)
    return Graph((*nodes, *after), path_lengths(_DECODER_STEM, lengths, a.depth, len(after)))


_ROLES = {
    ("embed",): "n", ("heads", "embed"): "q", ("head",): "h", ("embed", "heads"): "o", ("hidden", "embed"): "u",
    ("embed", "hidden"): "d",
}  # fmt: skip
"""Axes of a weight -> its role: norm; query, key or value; norm of heads; output; gate or neurons; MLP's output."""
_BRANCH_OF: dict[str, Literal["attention", "mlp"]] = {"o": "attention", "d": "mlp"}


def _decoder_branches(a: HFArchitecture, convention: Convention) -> list[list[list[list[Node]]]]:
    """Attention and MLP of layer 0; empty if the layer is not like Llama's.

    A branch is a list of steps, and a step a list of chains of nodes side by side.
    """
    axes = a.axes_of_one_layer()
    of_weights = {f"{module}.weight": axes.get(f"{module}.weight", ()) for module in a.structure.called}
    kinds = [tuple(axis.kind for axis in of_one if axis and axis.length == axis.size) for of_one in of_weights.values()]
    roles = "".join(_ROLES.get(each, "?") for each in kinds)
    if not re.fullmatch("n(qh?){3}onu{1,2}d", roles):
        return []
    branches: list[list[list[list[Node]]]] = [[], []]
    for place, (name, of_one) in enumerate(of_weights.items()):
        role = roles[place]
        shape = tuple(axis.length for axis in of_one if axis)
        has_bias = _bias_of(name) in axes
        steps = branches[place > roles.index("o")]
        if role in "nh":
            nodes = [Node("ln", name, shape, has_bias=has_bias)]
        else:
            nodes = [Node("conv", name, shape, std=TEXT_STD, branch=_BRANCH_OF.get(role, ""))]
            nodes += [Node("bias", _bias_of(name), shape[:1])] if has_bias else []
        if role == "h":
            steps[-1][-1] += nodes
        elif role in "qu" and roles[place - 1] != "n":
            steps[-1].append(nodes)
        else:
            steps += [[[Node("msa")]]] if role == "o" and convention == "msa" else []
            steps.append([nodes])
    return branches


def _bias_of(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


def _parameters(node: Node) -> list[str]:
    """Names of the parameters that a node stands for."""
    names = [node.parameter] if node.parameter else []
    return [*names, *map(_bias_of, names)] if node.op == "ln" and node.has_bias else names


def _layer(
    names: Sequence[str], width: int, hidden: int, convention: Convention, form: Form = "linear"
) -> Iterator[Node]:
    """One transformer layer.

    Args:
        names: The model's names of norm, qkv, projection, norm, fc1 and fc2.
        width: D.
        hidden: Hidden width of the MLP.
        convention: See :func:`computational_graph`.
        form: How the model stores its matrices.
    """
    norm1, qkv, proj, norm2, fc1, fc2 = names
    yield Node("ln", f"{norm1}.weight", (width,))
    yield from (replace(node, fused=3) for node in _linear(qkv, 3 * width, width, form=form))
    if convention == "msa":
        yield Node("msa")
    weight, bias = _linear(proj, width, width, form=form)
    yield from (replace(weight, branch="attention"), bias)
    yield Node("sum")
    yield Node("ln", f"{norm2}.weight", (width,))
    yield from _linear(fc1, hidden, width, form=form)
    weight, bias = _linear(fc2, width, hidden, form=form)
    yield from (replace(weight, branch="mlp"), bias)
    yield Node("sum")


def _linear(name: str, out: int, *rest: int, form: Form = "linear") -> tuple[Node, Node]:
    return Node("conv", f"{name}.weight", (out, *rest), form=form), Node("bias", f"{name}.bias", (out,))


Stem = tuple[tuple[int, ...], ...]
_VIT_STEM: Stem = ((), (0,), (1,), (), (2, 3))
_GPT2_STEM: Stem = ((), (0,), (), (1, 2))
_DECODER_STEM: Stem = ((), (0,))
Branch = tuple[tuple[int, ...], ...]
_BRANCHES: dict[Convention, tuple[Branch, Branch]] = {"msa": (((6,),), ((5,),)), "plain": (((5,),), ((5,),))}
"""The branches of a ViT's layer: their nodes form a single chain."""


@lru_cache(maxsize=256)
def path_lengths(stem: Stem, branches: tuple[Branch, ...], depth: int, tail: int) -> NDArray[np.int16]:
    """Path lengths of a transformer, int16, (N, N).

    Args:
        stem: Predecessors of each node up to the start of the residual stream.
        branches: For each branch of a layer its steps in order, of each step the lengths of its chains side by side.
            All nodes at the end of a step have edges to the first nodes of the next step, and the last step has one to
            the branch's sum.
        depth: Number of layers.
        tail: Number of nodes after the last layer, each with an edge to the next.
    """
    predecessors = list(stem)
    for branch in branches * depth:
        skip = len(predecessors) - 1
        before: tuple[int, ...] = (skip,)
        for step in branch:
            ends = []
            for length in step:
                predecessors.append(before)
                predecessors += [(len(predecessors) - 1 + k,) for k in range(length - 1)]
                ends.append(len(predecessors) - 1)
            before = tuple(ends)
        predecessors.append((*before, skip))
    predecessors += [(len(predecessors) - 1 + k,) for k in range(tail)]
    return shortest_paths(predecessors)
