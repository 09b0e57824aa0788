"""The training examples of tasks, in the form that an ancestor reads; for ``lgx embed``."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch

from data_modules.catalog import open_set, open_text
from data_modules.images.class_trees import read_all
from data_modules.images.examples import ImageFiles, Images, LabeledImages
from data_modules.loading.samplers import TransformedExamples
from data_modules.splits import stratified_order
from lgx.architectures import ViTArchitecture
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.core.eval_transforms import eval_transform
from lgx.core.task import ImageSize, Task
from lgx.errors import UserError
from lgx.host.images import ImageReader


@dataclass(frozen=True)
class Examples:
    """The training examples of a task.

    Attributes:
        task: The task.
        examples: Map-style data set of tensors.
        collate: Makes the inputs of a batch, a tensor, of several examples.
        is_described: Whether the task has classes.
    """

    task: Task
    examples: Any
    collate: Callable[[list[Any]], Any]
    is_described: bool = True


@dataclass(frozen=True)
class TaskReader:
    """Reads the training examples of tasks in the form that an ancestor expects.

    Attributes:
        ancestor: The ancestor.
        root: See ``lgx embed``, like the following ones.
    """

    ancestor: PretrainedNetwork
    root: str
    tokenizer: str | None
    max_len: int
    source: Literal["files", "hub"]
    limit: int | None

    def __post_init__(self) -> None:
        if self.tokenizer is not None and not self.reads_texts:
            raise UserError(f"--tokenizer: ancestor {self.ancestor.name} reads images; leave it out")

    @property
    def reads_texts(self) -> bool:
        """Whether the ancestor reads texts."""
        return self.ancestor.architecture is not None and self.ancestor.architecture.reads_text

    def read(self, name: str) -> Examples:
        """The training examples of the task called ``name``."""
        return self._texts(name) if self.reads_texts else self._images(name)

    def _texts(self, name: str) -> Examples:
        module = open_text(name, self.root)
        architecture = cast(Any, self.ancestor.architecture)
        module.tokenizer, module.source, module.limit_train = self.tokenizer, self.source, self.limit
        module.vocab_size = architecture.vocab_size
        module.max_len = min(self.max_len, getattr(architecture, "most_tokens", architecture.max_len))
        module.check_options()
        module.prepare_data()
        module.setup("fit")
        texts = module.examples("train")
        ordered = texts.take(np.argsort(texts.lengths, kind="stable"))  # little padding
        return Examples(module.task, ordered, lambda examples: module.collate(examples).inputs)

    def _images(self, name: str) -> Examples:
        folder = Path(name).resolve()
        flat = read_all(Path(name), folder.name, deep=False) if folder.is_dir() else None
        task, images = self._unlabeled(folder.name, flat) if flat else self._labeled(name)
        if self.limit is not None:
            chosen = stratified_order(images.labels, seed=0)[: self.limit]
            images = LabeledImages(images, np.asarray(images.labels)[chosen], task.name, chosen)
        transformed = TransformedExamples(images, eval_transform(task))
        return Examples(task, transformed, lambda examples: torch.stack([image for image, _ in examples]), not flat)

    def _labeled(self, name: str) -> tuple[Task, Images]:
        module = open_set(name, self.root)
        module.img_size, module.in_chans = self._form()
        module.follow_reading(self.ancestor.reading)
        module.prepare_data()
        module.setup("fit")
        return module.task, module.examples("train")

    def _unlabeled(self, name: str, flat: ImageFiles) -> tuple[Task, Images]:
        size, channels = self._form()
        half = (0.5,) * channels
        reading = self.ancestor.reading
        flat.reader = ImageReader(channels, reading.value_range)
        wrong = flat.reader.check_values(name, flat.sources())[1]
        if wrong:
            raise UserError(wrong)
        task = Task(name, 0, num_train=len(flat), in_chans=channels, img_size=size, mean=half, std=half)
        return replace(task, **reading._asdict()), flat

    def _form(self) -> tuple[ImageSize, Literal[1, 3]]:
        """Size and channels of the images."""
        architecture = self.ancestor.architecture
        architecture = architecture if isinstance(architecture, ViTArchitecture) else ViTArchitecture()
        return architecture.img_size, 1 if architecture.in_chans == 1 else 3
