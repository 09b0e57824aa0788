"""The hypernetwork: architectures in, their parameters out."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture, ViTArchitecture
from lgx.errors import UserError
from lgx.hypernet.batch import GraphBatch
from lgx.hypernet.conv_decoder import ConvDecoder
from lgx.hypernet.decoder import Decoder, Kind, Target
from lgx.hypernet.encoder import Encoder
from lgx.hypernet.graph import Convention, Graph, Node, computational_graph, is_vocabulary
from lgx.hypernet.lowrank_decoder import Layout, LowRankDecoder
from lgx.hypernet.predict import balance, finish


@dataclass(frozen=True)
class HypernetConfig:
    """Everything that must be known to rebuild a hypernetwork; it is stored with the weights, never guessed.

    Attributes:
        width: Embedding width D.
        layers: Graphormer blocks.
        heads: Attention heads.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled.
        num_classes: Number of classes that it was made for.
        decoder: ``conv`` (GHN-3) or ``low_rank`` (LoGAH, TAL).
        rank: Rank r of the low-rank decoder.
        max_size: Largest number of rows or columns of the low-rank decoder's factors.
        layout: Layout of its factors.
        task_width: Width of task embeddings; None without task conditioning.
        convention: Graphs with (``msa``) or without (``plain``) attention nodes.
        class_position_std: The class token's row of a position embedding is not predicted. 0 leaves it zero; with 0.02
            it is drawn anew at every prediction, as in the official code, whose predictions cannot be repeated.
        vocab_size: Tokens that have rows of their own in the low-rank decoder, for the layouts but ``official``. None
            tiles token embeddings like every weight beyond ``max_shape``, as LoGAH's code does: tokens i and i + 2048
            then share one embedding.
        attention_gain: Factor g on the predicted output projections of attention; those of the MLPs and the position
            embedding are divided by it. See :func:`~lgx.hypernet.predict.balance`. 1 is as published.

    Raises:
        UserError: If a size is not a positive whole number, ``width`` is no multiple of 4 and of ``heads``, a choice
            is unknown, or ``vocab_size`` is given to a decoder without such rows.
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
    class_position_std: float = 0.0
    vocab_size: int | None = None
    attention_gain: float = 1.0

    def __post_init__(self) -> None:
        for key in ("width", "layers", "heads", "num_classes", "rank", "max_size"):
            if not _is_size(getattr(self, key)):
                raise UserError(f"hypernetwork: {key} must be at least 1, got {getattr(self, key)!r}")
        for key in ("task_width", "vocab_size"):
            if (value := getattr(self, key)) is not None and not _is_size(value):
                raise UserError(f"hypernetwork: {key} must be at least 1 or none, got {value!r}")
        if self.vocab_size is not None and (self.decoder == "conv" or self.layout == "official"):
            raise UserError(
                "hypernetwork: vocab_size needs the low_rank decoder with layout residual or aligned; leave it out or "
                "choose one of them"
            )
        shape = self.max_shape
        if not isinstance(shape, list | tuple) or len(shape) != 4 or not all(map(_is_size, shape)):
            raise UserError(f"hypernetwork: max_shape must be four positive sizes, got {shape!r}")
        object.__setattr__(self, "max_shape", tuple(shape))
        for key, choices in _CHOICES.items():
            if getattr(self, key) not in choices:
                raise UserError(f"hypernetwork: {key} must be {' or '.join(choices)}, got {getattr(self, key)!r}")
        if not _is_finite(self.class_position_std) or self.class_position_std < 0:
            raise UserError(
                f"hypernetwork: class_position_std must be finite and not negative, got {self.class_position_std!r}"
            )
        if not _is_finite(self.attention_gain) or self.attention_gain <= 0:
            raise UserError(f"hypernetwork: attention_gain must be finite and positive, got {self.attention_gain!r}")
        if self.width % 4 or self.width % self.heads:
            raise UserError(
                f"hypernetwork: width {self.width} must be a multiple of 4 and of heads {self.heads}; choose another"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


_CHOICES = {"decoder": ("conv", "low_rank"), "layout": get_args(Layout), "convention": get_args(Convention)}


def _is_size(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


class Hypernet(nn.Module):
    """GHN-3, LoGAH or TAL's hypernetwork, by its configuration.

    The class token is not predicted: it is zero.

    Args:
        config: What to build.
    """

    def __init__(self, config: HypernetConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(
            config.width, config.layers, config.heads, config.num_classes, config.max_shape[3], config.task_width
        )
        self.decoder: Decoder
        if config.decoder == "conv":
            self.decoder = ConvDecoder(config.width, config.max_shape, config.num_classes)
        else:
            self.decoder = LowRankDecoder(
                config.width, config.rank, config.max_shape, config.max_size, config.layout, config.vocab_size
            )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the encoder with torch.compile; decoding and execution take another shape with each architecture."""
        self.encoder.compile(*args, **{"dynamic": True, **kwargs})

    def predict(
        self, architecture: Architecture, task_embedding: Tensor | None = None, dense: bool = True
    ) -> dict[str, Tensor]:
        """Predict all parameters of one architecture.

        Args:
            architecture: What to predict for.
            task_embedding: Task embedding, (T,); None for a hypernetwork without task conditioning.
            dense: False keeps the matrices of a low-rank decoder as :class:`~lgx.hypernet.lowrank.LowRankTensor`.

        Returns:
            Parameters under timm's or transformers' names, with gradient where the hypernetwork has.

        Raises:
            UserError: If a task embedding is missing, superfluous or of another width, or :meth:`check` refuses the
                architecture.
        """
        return self.predict_many([architecture], task_embedding, dense)[0]

    def predict_many(
        self, architectures: Sequence[Architecture], task_embedding: Tensor | None = None, dense: bool = True
    ) -> list[dict[str, Tensor]]:
        """Predict for several architectures of one task; the same as one by one, in one pass of the encoder.

        Args:
            architectures: What to predict for.
            task_embedding: See :meth:`predict`.
            dense: See :meth:`predict`.

        Returns:
            Parameters by name, for each architecture.

        Raises:
            UserError: See :meth:`predict`; also if there is no architecture.
        """
        graphs = [computational_graph(architecture, self.config.convention) for architecture in architectures]
        predicted = self.predict_graphs(graphs, task_embedding, dense)
        for architecture, tensors in zip(architectures, predicted, strict=True):
            add_class_token(architecture, tensors)
        return predicted

    def predict_graphs(
        self, graphs: Sequence[Graph], task_embedding: Tensor | None = None, dense: bool = True
    ) -> list[dict[str, Tensor]]:
        """Predict the parameters that computational graphs name; what :meth:`predict_many` does for architectures.

        Args:
            graphs: G graphs.
            task_embedding: See :meth:`predict`.
            dense: See :meth:`predict`.

        Returns:
            Parameters by name, for each graph.

        Raises:
            UserError: If there is no graph, a task embedding is missing, superfluous or of another width, or a weight
                is too large.
        """
        self._check_task(task_embedding)
        # Small matrices with wide ranges of value: float32 costs little here, and saves a run from overflowing.
        with torch.autocast(next(self.parameters()).device.type, enabled=False):
            return self.decode(graphs, self.encode(graphs, task_embedding), dense)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that cannot be predicted.

        Raises:
            UserError: If it has no class head or shares layers, or a weight or a vocabulary exceeds what the decoder's
                factors have rows for.
        """
        for node in computational_graph(architecture, self.config.convention).nodes:
            if node.parameter is not None:
                self.decoder.check(self._target(node, 1))

    def encode(self, graphs: Sequence[Graph], task_embedding: Tensor | None = None) -> Tensor:
        """Embed every node in its graph.

        Args:
            graphs: G graphs.
            task_embedding: Task embedding, (T,).

        Returns:
            (G, N, D); rows beyond a graph's own nodes are meaningless.
        """
        parameter = next(self.parameters())
        task = None if task_embedding is None else task_embedding.to(parameter)
        embedded: Tensor = self.encoder(GraphBatch.of(graphs).to(parameter.device), task)
        return embedded

    def decode(self, graphs: Sequence[Graph], embedded: Tensor, dense: bool = True) -> list[dict[str, Tensor]]:
        """Predict the parameters that the graphs name from their nodes' embeddings.

        Args:
            graphs: G graphs.
            embedded: What :meth:`encode` makes of them, (G, N, D).
            dense: See :meth:`predict`.

        Returns:
            Parameters by name, for each graph.

        Raises:
            UserError: If a weight or a vocabulary exceeds what the decoder's factors have rows for.
        """
        predicted: list[dict[str, Tensor]] = [{} for _ in graphs]
        groups: dict[Node, list[tuple[int, int, str]]] = defaultdict(list)  # by what matters: all but the name
        aligned = (self.config.decoder, self.config.layout) == ("low_rank", "aligned")
        for g, graph in enumerate(graphs):
            for n, node in enumerate(graph.nodes):
                if node.parameter is not None:
                    kind = replace(node, parameter=None, parts=node.parts if aligned else 1)
                    groups[kind].append((g, n, node.parameter))
        members = [(g, n) for group in groups.values() for g, n, _ in group]
        x = embedded[[g for g, _ in members], [n for _, n in members]]  # all nodes with a parameter, group by group
        targets = [self._target(kind, len(group)) for kind, group in groups.items()]
        for (kind, group), decoded in zip(groups.items(), self.decoder.decode(x, targets), strict=True):
            finished = finish(kind, decoded, dense, self.config.class_position_std)
            for (g, _, name), tensors in zip(group, finished, strict=True):
                stem = name.removesuffix(".weight")
                predicted[g].update({pattern.format(name, stem): tensor for pattern, tensor in tensors.items()})
        if self.config.attention_gain != 1:
            predicted = [balance(parameters, self.config.attention_gain) for parameters in predicted]
        return predicted

    def _target(self, node: Node, count: int) -> Target:
        """What the decoder is asked for: no larger than ``max_shape``, four numbers for a matrix."""
        most, shape = self.config.max_shape, node.shape
        own_head = node.head and self.config.decoder == "conv"  # GHN-3's layer for heads
        out = min(shape[0], self.config.num_classes if own_head else most[0])
        if node.op in ("bias", "ln", "bn"):
            kind: Kind = "norm" if node.op != "bias" else "head_bias" if node.head else "bias"
            return Target(kind, (out,), count)
        _, inputs, height, width = (*shape, 1, 1)[:4]
        inputs = min(inputs, most[1])
        if is_vocabulary(node) and self.config.vocab_size is not None:
            if shape[0] > self.config.vocab_size:
                raise UserError(
                    f"hypernetwork: knows {self.config.vocab_size} tokens, but the architecture has {shape[0]}; "
                    f"use one with a larger vocab_size"
                )
            return Target("tokens", (shape[0], inputs, 1, 1), count)
        return Target("head" if node.head else "matrix", (out, inputs, height, width), count)

    def _check_task(self, task_embedding: Tensor | None) -> None:
        wanted = self.config.task_width
        if (wanted is None) != (task_embedding is None):
            raise UserError(
                "this hypernetwork takes no task embedding" if wanted is None
                else f"this hypernetwork needs a task embedding of {wanted} numbers"
            )  # fmt: skip
        if task_embedding is not None and task_embedding.shape != (wanted,):
            raise UserError(f"task embedding: expected {wanted} numbers, got shape {tuple(task_embedding.shape)}")


def add_class_token(architecture: Architecture, parameters: dict[str, Tensor]) -> None:
    """Give a ViT's predicted parameters the class token, which is not predicted: zero."""
    if isinstance(architecture, ViTArchitecture):
        parameters["cls_token"] = parameters["pos_embed"].new_zeros(1, 1, architecture.embed_dim)
