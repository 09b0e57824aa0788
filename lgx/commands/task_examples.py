"""The training examples of tasks, in the form that an ancestor reads; for ``lgx embed``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from data_modules.images import Images
    from lgx.architectures import Architecture
    from lgx.core.task import Task


@dataclass(frozen=True)
class Examples:
    """The training examples of a task.

    Attributes:
        task: The task.
        examples: Map-style data set of tensors.
        collate: Makes the inputs of a batch, a tensor, of several examples.
        is_described: Whether the task is known by more than images without classes.
    """

    task: "Task"
    examples: Any
    collate: Callable[[list[Any]], Any]
    is_described: bool = True


class TaskReader:
    """Finds the training examples of tasks in the form that an ancestor reads. For the arguments see ``lgx embed``."""

    def __init__(
        self,
        ancestor: str,
        root: str,
        img_size: int | None,
        in_chans: Literal[1, 3] | None,
        tokenizer: str | None,
        max_len: int,
        source: Literal["files", "hub"],
        limit: int | None,
    ) -> None:
        from lgx.architectures import GPT2Architecture
        from lgx.artifacts.pretrained import load_pretrained
        from lgx.artifacts.timm_source import pinned_source

        self.ancestor, self.root, self.limit = pinned_source(ancestor), root, limit
        self.img_size, self.in_chans = img_size, in_chans
        self.tokenizer, self.max_len, self.source = tokenizer, max_len, source
        self.architecture: Architecture | None = load_pretrained(self.ancestor).architecture
        self.reads_texts = isinstance(self.architecture, GPT2Architecture)
        self._check_options()

    def _check_options(self) -> None:
        """Refuse options of images for an ancestor of texts, and the other way round."""
        from lgx.errors import UserError

        of_texts, of_images = {"tokenizer": self.tokenizer}, {"img_size": self.img_size, "in_chans": self.in_chans}
        for option, value in (of_images if self.reads_texts else of_texts).items():
            if value is not None:
                kind = "texts" if self.reads_texts else "images"
                raise UserError(f"--{option}: ancestor {self.ancestor} reads {kind}; leave it out")

    def read(self, name: str) -> Examples:
        """The training examples of the task called ``name``.

        Raises:
            UserError: If there is no such set, or its files are absent.
        """
        return self._texts(name) if self.reads_texts else self._images(name)

    def _texts(self, name: str) -> Examples:
        import numpy as np

        from data_modules.catalog import open_text
        from lgx.architectures import GPT2Architecture

        assert isinstance(self.architecture, GPT2Architecture)
        module = open_text(name, self.root)
        module.tokenizer, module.source, module.limit_train = self.tokenizer, self.source, self.limit
        module.vocab_size = self.architecture.vocab_size
        module.max_len = min(self.max_len, self.architecture.max_len)
        module.check_options()
        module.prepare_data()
        module.setup("fit")
        texts = module.examples("train")
        ordered = texts.take(np.argsort(texts.lengths, kind="stable"))  # little padding
        return Examples(module.task, ordered, lambda examples: module.collate(examples).inputs)

    def _images(self, name: str) -> Examples:
        from data_modules.samplers import TransformedExamples
        from lgx.core.eval_transforms import eval_transform

        task, images, is_described = self._unlabeled(name) or self._labeled(name)
        if self.limit is not None:
            images = _first(images, self.limit, task.name)
        return Examples(task, TransformedExamples(images, eval_transform(task)), _stack, is_described)

    def _unlabeled(self, name: str) -> tuple["Task", "Images", bool] | None:
        """A folder of images without classes."""
        from pathlib import Path

        from data_modules.class_trees import read_flat
        from lgx.core.task import Task

        folder = Path(name)
        own_name = folder.resolve().name
        images = read_flat(folder, own_name) if folder.is_dir() else None
        if images is None:
            return None
        size, channels = self._form()
        half = (0.5,) * channels
        task = Task(own_name, 0, num_train=len(images), in_chans=channels, img_size=size, mean=half, std=half)
        return task, images, False

    def _labeled(self, name: str) -> tuple["Task", "Images", bool]:
        from data_modules.catalog import open_set

        module = open_set(name, self.root)
        module.img_size, module.in_chans = self._form()
        module.prepare_data()
        module.setup("fit")
        return module.task, module.read("train"), True

    def _form(self) -> tuple[int, Literal[1, 3]]:
        """Size in pixels and channels of the images."""
        from lgx.architectures import ViTArchitecture

        own = self.architecture if isinstance(self.architecture, ViTArchitecture) else ViTArchitecture()
        return self.img_size or own.img_size, self.in_chans or (1 if own.in_chans == 1 else 3)


def _first(images: "Images", count: int, where: str) -> "Images":
    """The first examples of a class-stratified draw with a fixed seed."""
    import numpy as np

    from data_modules.images import LabeledImages
    from data_modules.splits import stratified_order

    chosen = stratified_order(images.labels, seed=0)[:count]
    return LabeledImages(images, np.asarray(images.labels)[chosen], where, chosen)


def _stack(examples: list[tuple[Any, int]]) -> Any:
    import torch

    return torch.stack([image for image, _ in examples])
