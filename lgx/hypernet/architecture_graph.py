"""Computational graphs of ViTs and GPT-2s, built from their architectures without tracing a model."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lgx.architectures import Architecture, GPT2Architecture, ViTArchitecture, name_of
from lgx.errors import UserError
from lgx.hypernet.graph import Convention, Form, Graph, Node, shortest_paths


def computational_graph(architecture: Architecture, convention: Convention = "msa") -> Graph:
    """Build the graph of a ViT or a GPT-2 (Knyazev et al., 2023).

    Each layer is ``ln -> qkv -> bias -> [msa] -> proj -> bias -> sum -> ln -> fc1 -> bias -> fc2 -> bias -> sum``; each
    ``sum`` also has an edge to the next ``sum``. LayerNorm biases and the class token have no nodes. Before the layers,
    a ViT has ``input -> patches -> bias -> sum`` and ``pos_enc -> sum``, a GPT-2 has ``input -> tokens -> sum`` and
    ``pos_enc -> sum``. After the layers come ``ln -> head -> bias``, without the bias in a GPT-2. The papers give no
    graph for GPT-2; this one adapts the ViT's.

    Args:
        architecture: The network.
        convention: ``msa`` puts an attention node between the qkv bias and the projection, as GHN-3 intends. The graph
            then has 13 L + 8 nodes for L layers, or 13 L + 6 for a GPT-2. ``plain`` leaves these L nodes out, as
            GHN-3's official tracer does with the fused attention of torch >= 2.1.

    Returns:
        The graph. Its distances are cached and must not be changed.
    """
    if not isinstance(architecture, ViTArchitecture | GPT2Architecture):
        raise UserError(
            f"architecture: expected a ViTArchitecture or GPT2Architecture, got {architecture!r}; "
            f"lgx.architectures.parse_architecture makes one from a name"
        )
    if isinstance(architecture, GPT2Architecture):
        lengths = path_lengths(_GPT2_STEM, architecture.depth, 2, convention)
        return Graph(_gpt2_nodes(architecture, convention), lengths)
    if not architecture.is_plain:
        raise UserError(
            f"architecture {name_of(architecture)}: hypernetworks predict plain ViTs, not form {architecture.form}"
        )
    if architecture.stages is not None:
        raise UserError(
            f"architecture {name_of(architecture)}: has layers that share weights, which hypernetworks do not predict; "
            f"leave out stages"
        )
    if architecture.num_classes < 1:
        raise UserError(
            f"architecture {name_of(architecture)}: has no class head (num_classes 0), but hypernetworks predict one; "
            f"set num_classes to at least 1"
        )
    lengths = path_lengths(_VIT_STEM, architecture.depth, 3, convention)
    return Graph(_vit_nodes(architecture, convention), lengths)


def _vit_nodes(a: ViTArchitecture, convention: Convention) -> tuple[Node, ...]:
    width, hidden = a.embed_dim, int(a.embed_dim * a.mlp_ratio)
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
def path_lengths(stem: Stem, depth: int, tail: int, convention: Convention) -> NDArray[np.int16]:
    """Path lengths of a transformer, int16, (N, N).

    Args:
        stem: Predecessors of each node up to the sum with the position embedding.
        depth: Number of layers.
        tail: Number of nodes after the last layer, each with an edge to the next.
        convention: See :func:`computational_graph`.
    """
    attention = 6 if convention == "msa" else 5  # nodes between one sum and the next
    predecessors = list(stem)
    for _ in range(depth):
        for between in (attention, 5):
            skip = len(predecessors) - 1
            predecessors += [(skip + k,) for k in range(between)]
            predecessors.append((skip + between, skip))
    predecessors += [(len(predecessors) - 1 + k,) for k in range(tail)]
    return shortest_paths(predecessors)
