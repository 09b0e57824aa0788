"""The hypernetwork: architectures in, their parameters out."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lgx.architectures.vit import ViTArchitecture
from lgx.errors import UserError
from lgx.hypernet.batch import GraphBatch
from lgx.hypernet.decoders import ConvDecoder, Decoder, Features, Layout, LowRankDecoder
from lgx.hypernet.encoder import Encoder
from lgx.hypernet.graph import Convention, Graph, Node, computational_graph
from lgx.hypernet.lowrank import LowRankTensor
from lgx.hypernet.predict import bias, norm_weight, tile, weight_scale


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

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


class Hypernet(nn.Module):
    """GHN-3, LoGAH or TAL's hypernetwork, by its configuration.

    The class token, and the position embedding's row that belongs to it, are not predicted: both are zero. The official
    code draws that row anew at every call (N(0, 0.02)), so that its predictions cannot be repeated.

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
            self.decoder = LowRankDecoder(config.width, config.rank, config.max_shape, config.max_size, config.layout)

    def predict(
        self, architecture: ViTArchitecture, task_embedding: Tensor | None = None, dense: bool = True
    ) -> dict[str, Tensor]:
        """Predict all parameters of one architecture.

        Args:
            architecture: What to predict for.
            task_embedding: Task embedding, (T,); None for a hypernetwork without task conditioning.
            dense: False keeps the matrices of a low-rank decoder as :class:`~lgx.hypernet.lowrank.LowRankTensor`.

        Returns:
            Parameters under timm's names, with gradient where the hypernetwork has.

        Raises:
            UserError: If a task embedding is missing, superfluous or of another width.
        """
        return self.predict_many([architecture], task_embedding, dense)[0]

    def predict_many(
        self, architectures: Sequence[ViTArchitecture], task_embedding: Tensor | None = None, dense: bool = True
    ) -> list[dict[str, Tensor]]:
        """Predict for several architectures of one task; the same as one by one, in one pass of the encoder."""
        graphs = [computational_graph(architecture, self.config.convention) for architecture in architectures]
        predicted = self.predict_graphs(graphs, task_embedding, dense)
        for architecture, tensors in zip(architectures, predicted, strict=True):
            tensors["cls_token"] = tensors["pos_embed"].new_zeros(1, 1, architecture.embed_dim)
        return predicted

    def predict_graphs(
        self, graphs: Sequence[Graph], task_embedding: Tensor | None = None, dense: bool = True
    ) -> list[dict[str, Tensor]]:
        """Predict the parameters that computational graphs name; what :meth:`predict_many` does for architectures."""
        self._check_task(task_embedding)
        # Small matrices with wide ranges of value: float32 costs little here, and saves a run from overflowing.
        with torch.autocast(next(self.parameters()).device.type, enabled=False):
            return self._predict(graphs, task_embedding, dense)

    def _predict(self, graphs: Sequence[Graph], task_embedding: Tensor | None, dense: bool) -> list[dict[str, Tensor]]:
        device = next(self.parameters()).device
        embedded = self.encoder(GraphBatch.of(graphs).to(device), task_embedding)  # (G, N, D)
        predicted: list[dict[str, Tensor]] = [{} for _ in graphs]
        groups: dict[tuple[str, bool, tuple[int, ...]], list[tuple[int, int, Node]]] = defaultdict(list)
        for g, graph in enumerate(graphs):
            for n, node in enumerate(graph.nodes):
                if node.parameter is not None:
                    groups[node.op, node.head, node.shape].append((g, n, node))
        members = [(g, n) for group in groups.values() for g, n, _ in group]
        x = embedded[[g for g, _ in members], [n for _, n in members]]  # all nodes with a parameter, group by group
        features = self.decoder.begin(x, [self._raw_shape(op, shape) for op, _, shape in groups])
        start = 0
        for (op, head, shape), group in groups.items():
            nodes = torch.arange(start, start + len(group), device=device)
            start += len(group)
            for (g, _, node), tensors in zip(group, self._decode(op, head, shape, features[nodes], dense), strict=True):
                assert node.parameter is not None
                stem = node.parameter.removesuffix(".weight")
                predicted[g].update({name.format(stem): tensor for name, tensor in tensors.items()})
                if op not in ("ln", "bn"):
                    predicted[g][node.parameter] = predicted[g].pop("value")
        return predicted

    def _raw_shape(self, op: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that the decoder is asked for: no larger than ``max_shape``, four numbers for a matrix."""
        most = self.config.max_shape
        if op in ("bias", "ln", "bn"):
            return (min(shape[0], most[0]),)
        out, inputs, height, width = (*shape, 1, 1)[:4]
        return (min(out, most[0]), min(inputs, most[1]), height, width)

    def _decode(
        self, op: str, head: bool, shape: tuple[int, ...], features: Features, dense: bool
    ) -> list[dict[str, Tensor]]:
        """Tensors of n nodes of one operation and shape; ``value``, or for a norm weight and bias."""
        raw = self._raw_shape(op, shape)
        if op == "pos_enc":
            return [{"value": self._positions(p, shape)} for p in self._matrices(features, raw)]
        if op == "conv" and head and shape[0] <= self.config.num_classes and self.config.decoder == "conv":
            weights = self.decoder.head_matrices(features, shape[0], raw[1])
            return [{"value": tile(w, shape) * weight_scale(shape)} for w in weights]
        if op == "conv" and len(shape) == 2 and not dense and isinstance(self.decoder, LowRankDecoder):
            return [{"value": weight} for weight in self._factored(features, raw, shape, self.decoder)]
        if op == "conv":
            weights = self._matrices(features, raw)
            return [{"value": tile(w, (*shape, 1, 1)[:4]).reshape(shape) * weight_scale(shape)} for w in weights]
        if head:
            return [{"value": bias(tile(b, shape))} for b in self.decoder.head_vectors(features, raw[0])]
        if op == "bias":
            return [{"value": bias(tile(b, shape))} for b in self.decoder.biases(features, raw[0])]
        vectors = self.decoder.vectors(features, raw[0])
        return [{"{}.weight": norm_weight(tile(v[0], shape)), "{}.bias": bias(tile(v[1], shape))} for v in vectors]

    def _matrices(self, features: Features, raw: tuple[int, ...]) -> Tensor:
        out, inputs, height, width = raw
        return self.decoder.matrices(features, (out, inputs, height, width))

    @staticmethod
    def _factored(
        features: Features, raw: tuple[int, ...], shape: tuple[int, ...], decoder: LowRankDecoder
    ) -> list[LowRankTensor]:
        """Weights of n nodes as products; tiling repeats rows of A and columns of B, normalisation scales A."""
        a, b = decoder.factors(features, raw[0], raw[1])
        a = tile(a, (len(a), shape[0], decoder.rank)) * weight_scale(shape)
        b = tile(b, (len(b), decoder.rank, shape[1]))
        return [LowRankTensor(a_n, b_n) for a_n, b_n in zip(a, b, strict=True)]

    @staticmethod
    def _positions(raw: Tensor, shape: tuple[int, ...]) -> Tensor:
        """(1, D, s, s), tiled -> (1, 1 + s², D), row by row, behind a zero row for the class token."""
        tokens = tile(raw, shape)[0].flatten(1).T
        return torch.cat([tokens.new_zeros(1, tokens.shape[1]), tokens]).unsqueeze(0)

    def _check_task(self, task_embedding: Tensor | None) -> None:
        wanted = self.config.task_width
        if (wanted is None) != (task_embedding is None):
            raise UserError(
                "this hypernetwork takes no task embedding" if wanted is None
                else f"this hypernetwork needs a task embedding of {wanted} numbers"
            )  # fmt: skip
        if task_embedding is not None and task_embedding.shape != (wanted,):
            raise UserError(f"task embedding: expected {wanted} numbers, got shape {tuple(task_embedding.shape)}")
