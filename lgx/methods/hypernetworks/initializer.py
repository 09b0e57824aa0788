"""The start that a hypernetwork predicts."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture, HFArchitecture, name_of, vit_only
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.sources import is_learngene
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.core.task import Normalization, Task
from lgx.errors import UserError
from lgx.host.safety import read_json
from lgx.hypernet import Hypernet, HypernetConfig, load, read_config
from lgx.initialization import Initializer, Origin, Sizes

Spectrum = Literal["predicted", "random"]
_IN_A_BLOCK = re.compile(r"(?:^|\.)(?:blocks|h|layers)\..*weight$")
"""Names of the weights of blocks, as timm and transformers write them: no embeddings, no heads."""


def with_random_spectrum(predicted: Mapping[str, Tensor], seed: int = 0) -> dict[str, Tensor]:
    """Give every matrix (rows, columns) of the blocks the singular values of a random start; keep its singular vectors.

    A hypernetwork predicts matrices of low rank: few directions carry almost all of a matrix. Repeated outputs give
    singular values of 0, with arbitrary singular vectors. Such a start trains badly. This is ours; the papers train
    predictions unchanged.

    Args:
        predicted: Parameters by name.
        seed: Seed of the random start, whose weights follow a truncated normal distribution of deviation 0.02.
    """
    matrices = {name for name, tensor in predicted.items() if _IN_A_BLOCK.search(name) and tensor.ndim == 2}
    generator = torch.Generator().manual_seed(seed)
    return {name: _flattened(t, generator) if name in matrices else t for name, t in predicted.items()}


def _flattened(matrix: Tensor, generator: torch.Generator) -> Tensor:
    """The matrix (rows, columns) with the singular values of a random one."""
    random = nn.init.trunc_normal_(torch.empty_like(matrix, dtype=torch.float64), std=0.02, generator=generator)
    left, _, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    flattened: Tensor = (left * torch.linalg.svdvals(random)) @ right
    return flattened.to(matrix.dtype)


class HypernetPrediction(Initializer):
    """All parameters of a descendant in one forward pass of GHN-3, LoGAH or TAL.

    Args:
        source: Learngene file of ``ghn3``, ``logah`` or ``tal``, or an official checkpoint.
        config: JSON file with the hypernetwork's configuration, for weights without one.
        task: Task whose embedding a task-aware hypernetwork reads; by default the descendant's.
        task_embeddings: File of ``lgx embed`` with the task, for tasks on which the learngene was not trained.
        spectrum: ``random`` gives every matrix of the blocks the singular values of a random start. Predicted matrices
            have low rank, so some starts train badly. Ours; docs/results/tal.md shows the gain.
        seed: Seed of the random start.
    """

    predicts_heads = True

    def __init__(
        self,
        source: str,
        config: str | None = None,
        task: str | None = None,
        task_embeddings: str | None = None,
        spectrum: Spectrum = "predicted",
        seed: int = 0,
    ) -> None:
        if spectrum not in get_args(Spectrum):
            raise UserError(f"spectrum: expected {' or '.join(get_args(Spectrum))}, got {spectrum!r}")
        self.source, self.config, self.seed, self.spectrum = source, config, seed, spectrum
        self.task, self.task_embeddings = task, task_embeddings

    @classmethod
    def check_source(cls, source: str, method: str, maker: str | None) -> None:
        """Refuse a learngene of another method."""
        if maker not in (None, method):
            raise UserError(f"{source}: a learngene of {maker}, not of {method}; leave out --method")

    @cached_property
    def loaded(self) -> Hypernet:
        """The hypernetwork."""
        if self.config is None:
            return load(self.source)
        remedy = "give a JSON file with the hypernetwork's configuration"
        return load(self.source, read_config(read_json(self.config, remedy), self.config))

    @property
    def method(self) -> str:
        """The learngene's method; for official checkpoints the method that the configuration implies."""
        return self.learngene.method if self.learngene else method_of(self.loaded.config)

    @cached_property
    def learngene(self) -> Learngene | None:
        """The learngene; None for other files."""
        return Learngene.load(self.source) if is_learngene(self.source) else None

    def origin(self) -> Origin:
        """The stored facts of the task for which parameters are predicted."""
        learngene = self.learngene
        if learngene is None:
            return Origin(num_classes=self.loaded.config.num_classes, kind="classification")
        if self.task is None or self.embedding() is None:
            return Origin.of_learngene(learngene)
        task = self.embedded_tasks.tasks.get(self.task)
        if task is None:  # described by images only
            return Origin(num_classes=0, kind=learngene.architecture.kind, task=self.task)
        return Origin.of_learngene(replace(learngene, task=task))

    def normalization(self, task: Task | None = None) -> Normalization | None:
        """That of the task that parameters are predicted for; None where it is unclear which of several applies."""
        learngene = self.learngene
        if learngene is None or self.task or len(learngene.tasks) < 2:
            return self.origin().normalization
        tasks = self.embedded_tasks.tasks | learngene.tasks
        origins = {
            name: Origin.of_learngene(replace(learngene, task=stored_task)) for name, stored_task in tasks.items()
        }
        if task is not None and task.name in origins:
            return origins[task.name].normalization
        shared = {origin.normalization for origin in origins.values()}
        return shared.pop() if len(shared) == 1 else None

    @cached_property
    def embedded_tasks(self) -> TaskEmbeddings:
        """Tasks of ``task_embeddings`` if given, otherwise the tasks on which the hypernetwork was tuned."""
        if self.task_embeddings:
            return TaskEmbeddings.load(self.task_embeddings)
        learngene = self.learngene
        if learngene is None:
            return TaskEmbeddings({})
        return TaskEmbeddings(learngene.task_embeddings, learngene.ancestor, tasks=learngene.tasks)

    def sizes(self) -> Sizes:
        """Any size; with the low-rank decoder, up to its factors' number of rows."""
        config = self.loaded.config
        learngene = self.learngene
        widest = None if config.decoder == "conv" else config.max_size // 4
        if learngene is None:
            return Sizes.free(widest=widest)
        return Sizes.free(vit_only(learngene.architecture, self.source), widest)

    def named_size(self, text: str, num_classes: int | None) -> Architecture:
        """See :class:`Initializer`; heads need not be as wide as the source's."""
        size = super().named_size(text, num_classes)
        trained = self.origin().architecture
        is_open = "head_dim=" not in text and size.embed_dim % size.num_heads == 0
        if isinstance(size, HFArchitecture) and isinstance(trained, HFArchitecture) and is_open:
            return size.replace(head_dim=trained.head_dim)
        return size

    def embedding(self, task: Task | None = None) -> Tensor | None:
        """The embedding, (T,), of the constructor's task, otherwise of ``task``; None without task information."""
        if self.loaded.config.task_width is None:
            if self.task or self.task_embeddings:
                raise UserError(f"{self.source}: does not read task embeddings; leave out task and task_embeddings")
            return None
        embeddings = self.embedded_tasks.tensors
        name = self.task or (task.name if task else None)
        if name is None and len(embeddings) == 1:
            (name,) = embeddings
        where = self.task_embeddings or self.source
        if name is None and embeddings:
            raise UserError(f"{where}: name the task (--task), one of {', '.join(sorted(embeddings))}")
        return self.embedded_tasks.of(name or "", where)

    @property
    def stored_parameters(self) -> int:
        """Parameters of the hypernetwork."""
        return sum(p.numel() for p in self.loaded.parameters())

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The predicted parameters."""
        trained = self.learngene.architecture if self.learngene else None
        if isinstance(architecture, HFArchitecture) and isinstance(trained, HFArchitecture):
            if architecture.vocab_size != trained.vocab_size:
                raise UserError(
                    f"{self.source}: was trained on texts of {trained.vocab_size} tokens, but {name_of(architecture)} "
                    f"has {architecture.vocab_size}; write vocab_size={trained.vocab_size} in the architecture"
                )
            if architecture.model_type != trained.model_type:
                raise UserError(
                    f"{self.source}: was trained on networks of the type {trained.model_type}, but "
                    f"{name_of(architecture)} is a {architecture.model_type}; leave the type out"
                )
        embedding = self.embedding(task)
        try:
            with torch.no_grad():
                predicted = self.loaded.predict(architecture, embedding)
        except UserError as error:
            raise UserError(f"{self.source}: {error}") from error
        return with_random_spectrum(predicted, self.seed) if self.spectrum == "random" else predicted

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """A note where no network of this width was trained on, and its row in the table of sizes is still random."""
        width = architecture.embed_dim
        trained = self.learngene.trained_widths if self.learngene else ()
        if not trained or self.loaded.encoder.shapes.has_row_of(width, trained):
            return ()
        widths = " and ".join(map(str, trained)) if len(trained) < 5 else f"{trained[0]} to {trained[-1]}"
        return (
            f"check     width {width}: the hypernetwork was trained on {widths}, embeddings of other widths are "
            "random; choose one of these",
        )


def method_of(config: HypernetConfig) -> str:
    """Name of the method that a configuration belongs to."""
    if config.decoder == "conv":
        return "ghn3"
    return "logah" if config.layout == "official" else f"logah_{config.layout}"
