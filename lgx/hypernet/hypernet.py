"""The hypernetwork, which predicts the parameters of architectures."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture, ViTArchitecture
from lgx.errors import UserError
from lgx.hypernet.config import HypernetConfig
from lgx.hypernet.conv_decoder import ConvDecoder
from lgx.hypernet.decoder import Decoder, Target, TargetKind
from lgx.hypernet.encoder import Encoder
from lgx.hypernet.graph import Graph, GraphBatch, Node, computational_graph, is_token_embedding
from lgx.hypernet.low_rank_decoder import LowRankDecoder
from lgx.hypernet.postprocessing import apply_attention_gain, postprocess


class Hypernet(nn.Module):
    """A graph hypernetwork; its configuration decides whether it is GHN-3's, LoGAH's or TAL's.

    An encoder embeds the nodes of a computational graph, and a decoder predicts their parameters. The class token of a
    ViT is not predicted; it is zero.

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
        self.encoder = Encoder(
            config.width,
            config.layers,
            config.heads,
            config.num_classes,
            config.max_shape[3],
            config.task_width,
            config.size_embedding,
        )
        self.decoder: Decoder
        if config.decoder == "conv":
            self.decoder = ConvDecoder(config.width, config.max_shape, config.num_classes)
        else:
            self.decoder = LowRankDecoder(
                config.width, config.rank, config.max_shape, config.max_size, config.layout, config.vocab_size
            )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the encoder with ``torch.compile``.

        The decoder and the predicted networks are not compiled: their shapes differ for each architecture.

        Args:
            *args: Arguments of ``nn.Module.compile``.
            **kwargs: Arguments of ``nn.Module.compile``; ``dynamic`` is True by default.
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
            UserError: If the task embedding is missing, not expected, or of another width, or if :meth:`check` refuses
                the architecture.
        """
        return self.predict_many([architecture], task_embedding, dense)[0]

    def predict_many(
        self, architectures: Sequence[Architecture], task_embedding: Tensor | None = None, dense: bool = True
    ) -> list[dict[str, Tensor]]:
        """Predict all parameters of several architectures for one task, in one pass of the encoder.

        Args:
            architectures: The networks.
            task_embedding: See :meth:`predict`.
            dense: See :meth:`predict`.

        Returns:
            For each architecture the same parameters as :meth:`predict` returns.

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
        """Predict the parameters of all nodes of computational graphs.

        Args:
            graphs: G graphs.
            task_embedding: See :meth:`predict`.
            dense: See :meth:`predict`.

        Returns:
            For each graph the parameters by name, without a class token.

        Raises:
            UserError: If there is no graph, if the task embedding is missing, not expected, or of another width, or if
                a weight is too large for the decoder.
        """
        self._check_task(task_embedding)
        # The matrices are small, so float32 costs little, and their values can overflow a lower precision.
        with torch.autocast(next(self.parameters()).device.type, enabled=False):
            return self.decode(graphs, self.encode(graphs, task_embedding), dense)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that cannot be predicted.

        Args:
            architecture: The network.

        Raises:
            UserError: If it has no classification head, its layers share weights, or a weight or vocabulary is too
                large for the decoder.
        """
        for node in computational_graph(architecture, self.config.convention).nodes:
            if node.parameter is not None:
                self.decoder.check(self._target(node, 1))

    def encode(self, graphs: Sequence[Graph], task_embedding: Tensor | None = None) -> Tensor:
        """Embed each node in the context of its graph.

        Args:
            graphs: G graphs; the largest has N nodes.
            task_embedding: Task embedding, (T,); None for a hypernetwork without task conditioning.

        Returns:
            (G, N, D); rows after a graph's own nodes have no meaning.

        Raises:
            UserError: If there is no graph.
        """
        parameter = next(self.parameters())
        task = None if task_embedding is None else task_embedding.to(parameter)
        embedded: Tensor = self.encoder(GraphBatch.from_graphs(graphs).to(parameter.device), task)
        return embedded

    def decode(self, graphs: Sequence[Graph], embedded: Tensor, dense: bool = True) -> list[dict[str, Tensor]]:
        """Predict the parameters of all nodes from their embeddings.

        Args:
            graphs: G graphs.
            embedded: The result of :meth:`encode` for them, (G, N, D).
            dense: See :meth:`predict`.

        Returns:
            For each graph the parameters by name, without a class token.

        Raises:
            UserError: If a weight or a vocabulary is too large for the decoder.
        """
        predicted: list[dict[str, Tensor]] = [{} for _ in graphs]
        groups: dict[Node, list[tuple[int, int, str]]] = defaultdict(list)  # nodes that differ only in the name
        aligned = (self.config.decoder, self.config.layout) == ("low_rank", "aligned")
        for g, graph in enumerate(graphs):
            for n, node in enumerate(graph.nodes):
                if node.parameter is not None:
                    kind = replace(node, parameter=None, fused=node.fused if aligned else 1)
                    groups[kind].append((g, n, node.parameter))
        members = [(g, n) for group in groups.values() for g, n, _ in group]
        x = embedded[[g for g, _ in members], [n for _, n in members]]  # nodes with a parameter, group by group
        targets = [self._target(kind, len(group)) for kind, group in groups.items()]
        for (kind, group), decoded in zip(groups.items(), self.decoder.decode(x, targets), strict=True):
            finished = postprocess(kind, decoded, dense, self.config.class_position_std)
            for (g, _, name), tensors in zip(group, finished, strict=True):
                stem = name.removesuffix(".weight")
                predicted[g].update({pattern.format(name, stem): tensor for pattern, tensor in tensors.items()})
        if self.config.attention_gain != 1:
            predicted = [apply_attention_gain(parameters, self.config.attention_gain) for parameters in predicted]
        return predicted

    def tiled_parameters(self, graph: Graph) -> list[str]:
        """Names of the parameters that are tiled because they have more outputs or inputs than ``max_shape``.

        Kernels that are larger than ``max_shape`` are not tiled: GHN-3 interpolates them, LoGAH predicts their full
        size. The name of a norm's weight also stands for its bias.

        Raises:
            UserError: If the vocabulary is too large for the decoder.
        """
        parameters = ((node.parameter, node) for node in graph.nodes if node.parameter is not None)
        return [name for name, node in parameters if self._target(node, 1).shape[:2] != node.shape[:2]]

    def _target(self, node: Node, count: int) -> Target:
        """The target of nodes like this one, cropped to ``max_shape``."""
        most, shape = self.config.max_shape, node.shape
        own_head = node.head and self.config.decoder == "conv"  # GHN-3 has a layer of its own for heads
        out = min(shape[0], self.config.num_classes if own_head else most[0])
        if node.op in ("bias", "ln", "bn"):
            kind: TargetKind = "norm" if node.op != "bias" else "head_bias" if node.head else "bias"
            return Target(kind, (out,), count)
        _, inputs, height, width = (*shape, 1, 1)[:4]
        inputs = min(inputs, most[1])
        if is_token_embedding(node) and self.config.vocab_size is not None:
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
