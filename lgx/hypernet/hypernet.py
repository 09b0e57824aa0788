"""The hypernetwork, which predicts the parameters of architectures, and its configuration."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture, ViTArchitecture
from lgx.core.schema import Field, at_most, between, check_fields, one_of, or_none
from lgx.errors import UserError
from lgx.hypernet.decoder import (
    BIAS_SLOPE,
    NORM_SLOPE,
    ConvDecoder,
    Decoder,
    Factors,
    Target,
    TargetKind,
    attention_gain,
    postprocess,
)
from lgx.hypernet.encoder import Encoder
from lgx.hypernet.graph import Convention, Graph, GraphBatch, Node, computational_graph, has_token_rows
from lgx.hypernet.low_rank_decoder import Layout, LowRankDecoder
from lgx.hypernet.low_rank_tensor import dense_is_faster
from lgx.hypernet.predicted import Joined, Name, Predicted, Stack


@dataclass(frozen=True)
class HypernetConfig:
    """Everything that is needed to build a hypernetwork. It is stored with the weights and never guessed from them.

    Attributes:
        width: Embedding width D.
        layers: Number of Graphormer blocks.
        heads: Number of attention heads.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled.
        num_classes: Number of classes that the hypernetwork is built for.
        decoder: ``conv`` (GHN-3) or ``low_rank`` (LoGAH, TAL).
        rank: Rank r of the low-rank decoder.
        max_size: Largest number of rows or columns of the low-rank decoder's factors.
        layout: How the low-rank decoder computes its factors; see
            :class:`~lgx.hypernet.low_rank_decoder.LowRankDecoder`.
        task_width: Width T of task embeddings; None without task conditioning.
        convention: Whether graphs have attention nodes (``msa``) or not (``plain``).
        vocab_size: Number of tokens with rows of their own in the low-rank decoder; only with layout
            ``aligned``. With None a token embedding is tiled like every weight larger than ``max_shape``, as in LoGAH's
            code: tokens i and i + 2048 then share one embedding.
        attention_gain: Factor g of :func:`~lgx.hypernet.decoder.attention_gain`. 1 is as published.

    Raises:
        UserError: If a size is not a positive integer or too large, ``width`` is not a multiple of 4 and of ``heads``,
            a choice is unknown, ``attention_gain`` is out of range, or ``vocab_size`` is given to a decoder without
            token rows.
    """

    width: int = 128
    layers: int = 5
    heads: int = 16
    max_shape: tuple[int, int, int, int] = (2048, 2048, 16, 16)
    num_classes: int = 1000
    decoder: Literal["conv", "low_rank"] = "low_rank"
    rank: int = 90
    max_size: int = 32768
    layout: Layout = "official"
    task_width: int | None = None
    convention: Convention = "msa"
    vocab_size: int | None = None
    attention_gain: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.max_shape, list):
            object.__setattr__(self, "max_shape", tuple(self.max_shape))
        check_fields(vars(self), _FIELDS, "hypernetwork")
        if self.vocab_size is not None and (self.decoder == "conv" or self.layout == "official"):
            raise UserError(
                "hypernetwork: vocab_size needs the low_rank decoder with layout aligned; leave it out or choose this "
                "layout"
            )
        if self.width % 4 or self.width % self.heads:
            raise UserError(
                f"hypernetwork: width {self.width} must be a multiple of 4 and of heads {self.heads}; choose another"
            )

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain types, for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


_LARGEST = (2**20, 2**20, 255, 255)


def _is_shape(value: Any) -> bool:
    sizes = zip(value, _LARGEST, strict=True) if isinstance(value, tuple) and len(value) == 4 else [(0, 1)]
    return all(at_most(most, 1).holds(size) for size, most in sizes)


_FIELDS = {
    "width": at_most(65_536, 1),
    "layers": at_most(1000, 1),
    "heads": at_most(65_536, 1),
    "max_shape": Field(_is_shape, f"four whole numbers, 1 to {_LARGEST}"),
    "num_classes": at_most(100_000, 1),
    "decoder": one_of("conv", "low_rank"),
    "rank": at_most(65_536, 1),
    "max_size": at_most(2**24, 1),
    "layout": one_of(*get_args(Layout)),
    "task_width": or_none(at_most(2**20, 1)),
    "convention": one_of(*get_args(Convention)),
    "vocab_size": or_none(at_most(2**24, 1)),
    "attention_gain": between(0.001, 1000),
}
"""What each option must be: a file must not claim sizes that exhaust time or memory."""


class Hypernet(nn.Module):
    """A graph hypernetwork; its configuration decides whether it is GHN-3's, LoGAH's or TAL's.

    An encoder embeds the nodes of a computational graph, and a decoder predicts their parameters. The class token of a
    ViT and its position are not predicted; they are zero. (The official code draws the position at each prediction.)

    Args:
        config: The configuration.

    References:
        Knyazev et al., Can We Scale Transformers to Predict Parameters of Diverse ImageNet Models?, ICML 2023 (GHN-3).
        Zhou et al., LoGAH: Predicting 774-Million-Parameter Transformers using Graph HyperNetworks with 1/100
        Parameters, 2024.
        Xu et al., Learngene Tells You How to Customize, ICML 2025 (TAL).
    """

    def __init__(self, config: HypernetConfig) -> None:
        super().__init__()
        self.config = config
        sizes = config.width, config.layers, config.heads, config.num_classes, config.max_shape[3]
        self.encoder = Encoder(*sizes, config.task_width)
        self.decoder: Decoder
        if config.decoder == "conv":
            self.decoder = ConvDecoder(config.width, config.max_shape, config.num_classes)
        else:
            self.decoder = LowRankDecoder(
                config.width, config.rank, config.max_shape, config.max_size, config.layout, config.vocab_size
            )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the encoder with ``nn.Module.compile``, ``dynamic`` by default.

        The decoder and the predicted networks are not compiled: their shapes differ for each architecture.
        """
        self.encoder.compile(*args, **{"dynamic": True, **kwargs})

    def predict(
        self, architecture: Architecture, task_embedding: Tensor | None = None, dense: bool = True
    ) -> dict[str, Tensor]:
        """Predict all parameters of one architecture.

        Args:
            architecture: The network.
            task_embedding: Task embedding, (T,); None for a hypernetwork without task conditioning.
            dense: False keeps the matrices of a low-rank decoder as
                :class:`~lgx.hypernet.low_rank_tensor.LowRankTensor`.

        Returns:
            Parameters by their names in timm or transformers, with gradient if the hypernetwork's parameters have one.

        Raises:
            UserError: If :meth:`check` refuses the architecture, or the embedding is missing or of another width.
        """
        graph = computational_graph(architecture, self.config.convention)
        (predicted,) = self.predict_graphs([graph], task_embedding, None if dense else 0).by_name(1)
        add_class_token(architecture, predicted)
        return predicted

    def predict_graphs(
        self, graphs: Sequence[Graph], task_embedding: Tensor | None = None, inputs: int | None = None
    ) -> Predicted:
        """Predict the parameters of all nodes of computational graphs.

        Args:
            graphs: At least one graph.
            task_embedding: See :meth:`predict`.
            inputs: See :meth:`decode`.
        """
        self._check_task(task_embedding)
        # The matrices are small, so float32 costs little, and their values can overflow a lower precision.
        with torch.autocast(next(self.parameters()).device.type, enabled=False):
            return self.decode(graphs, self.encode(graphs, task_embedding), inputs)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a head, with shared layers, or too large for the decoder."""
        for node in computational_graph(architecture, self.config.convention).nodes:
            if node.parameter is not None:
                self.decoder.check(self._target(node, 1))

    def encode(self, graphs: Sequence[Graph], task_embedding: Tensor | None = None) -> Tensor:
        """Embed each node in the context of its graph.

        Args:
            graphs: G graphs; the largest has N nodes.
            task_embedding: Task embedding, (T,); None for a hypernetwork without task conditioning.

        Returns:
            (N, G, D); rows after a graph's own nodes have no meaning.
        """
        parameter = next(self.parameters())
        task = None if task_embedding is None else task_embedding.to(parameter)
        return cast(Tensor, self.encoder(GraphBatch.from_graphs(graphs).to(parameter.device), task))

    def decode(self, graphs: Sequence[Graph], embedded: Tensor, inputs: int | None = None) -> Predicted:
        """Predict the parameters of all nodes from their embeddings.

        Args:
            graphs: G graphs.
            embedded: The result of :meth:`encode` for them, (N, G, D).
            inputs: Vectors that a layer multiplies: factors that are slower than their product for so many are
                multiplied. None multiplies all.

        Returns:
            All parameters of all graphs, without class tokens.
        """
        # Nodes that differ only in the name, and the gain of their parameter.
        groups: dict[tuple[Node, float], list[tuple[int, int, str]]] = defaultdict(list)
        aligned = (self.config.decoder, self.config.layout) == ("low_rank", "aligned")
        for g, graph in enumerate(graphs):
            for n, node in enumerate(graph.nodes):
                if node.parameter is not None:
                    kind = replace(node, parameter=None, fused=node.fused if aligned else 1)
                    gain = attention_gain(node, self.config.attention_gain)
                    groups[kind, gain].append((g, n, node.parameter))
        targets = {key: self._target(key[0], len(group)) for key, group in groups.items()}
        # Equal targets are neighbors, so that a decoder can compute them together.
        targets = dict(sorted(targets.items(), key=lambda item: (item[1].kind, item[1].shape)))
        members = list(chain(*(groups[key] for key in targets)))
        x = embedded[[n for _, n, _ in members], [g for g, _, _ in members]]  # nodes with a parameter, group by group
        dense: list[Stack[Name]] = []
        products: list[tuple[Sequence[Name], Factors]] = []
        vectors: list[Stack[Name]] = []
        for key, decoded in zip(targets, self.decoder.decode(x, list(targets.values())), strict=True):
            kind = key[0]
            for pattern, values in postprocess(*key, decoded).items():
                names = [(g, pattern.format(name, name.removesuffix(".weight"))) for g, _, name in groups[key]]
                if kind.op in ("ln", "bias"):
                    vectors.append((names, cast(Tensor, values)))
                elif isinstance(values, Tensor):
                    dense.append((names, values))
                elif inputs is None or dense_is_faster(inputs, values.a.shape[1], *values.b.shape[1:]):
                    left, right = (values.b, values.a) if values.transposed else (values.a, values.b)
                    dense.append((names, left * values.scale @ right.mT))
                else:
                    products.append((names, values))
        joined = Joined(vectors)
        are_norms = [name.endswith(".weight") for _, name in joined.names]
        slopes = joined.repeat([NORM_SLOPE if is_norm else BIAS_SLOPE for is_norm in are_norms])
        joined.rows = torch.tanh(joined.rows * slopes) + joined.repeat(are_norms)
        return Predicted(dense, products, joined)

    def _target(self, node: Node, count: int) -> Target:
        """The target of nodes like this one, cropped to ``max_shape``."""
        most = self.config.max_shape
        shape = node.shape
        has_head_layer = node.head and self.config.decoder == "conv"  # GHN-3 has a layer of its own for heads
        out = min(shape[0], self.config.num_classes if has_head_layer else most[0])
        if node.op in ("bias", "ln"):
            kind: TargetKind = "norm" if node.op != "bias" else "head_bias" if node.head else "bias"
            return Target(kind, (out,), count)
        _, inputs, height, width = (*shape, 1, 1)[:4]
        inputs = min(inputs, most[1])
        if has_token_rows(node) and self.config.vocab_size is not None:
            if shape[0] > self.config.vocab_size:
                raise UserError(
                    f"hypernetwork: has rows for {self.config.vocab_size} tokens, but the architecture has {shape[0]} "
                    f"tokens; use a hypernetwork with a larger vocab_size"
                )
            return Target("tokens", (shape[0], inputs, 1, 1), count)
        return Target("head" if node.head else "matrix", (out, inputs, height, width), count)

    def _check_task(self, task_embedding: Tensor | None) -> None:
        """Refuse an embedding that is missing, not expected, or not of shape (T,)."""
        wanted = self.config.task_width
        if (wanted is None) != (task_embedding is None):
            raise UserError(
                "this hypernetwork takes no task embedding" if wanted is None
                else f"this hypernetwork needs a task embedding of {wanted} numbers"
            )  # fmt: skip
        if task_embedding is not None and task_embedding.shape != (wanted,):
            raise UserError(f"task embedding: expected {wanted} numbers, got shape {tuple(task_embedding.shape)}")


def add_class_token(architecture: Architecture, parameters: dict[str, Tensor]) -> None:
    """Add the class token, which is not predicted and zero, to a ViT's predicted parameters, in place.

    Args:
        architecture: The network; nothing is added if it is not a ViT.
        parameters: Its predicted parameters by name.
    """
    if isinstance(architecture, ViTArchitecture):
        parameters["cls_token"] = parameters["pos_embed"].new_zeros(1, 1, architecture.embed_dim)
