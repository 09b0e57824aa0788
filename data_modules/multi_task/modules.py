"""``MultiTask`` and ``MultiText`` train on several data sets: every batch holds examples of one task."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np
from torch.utils.data import DataLoader

from data_modules.base import Split, TaskDataModule
from data_modules.catalog import open_set, open_text
from data_modules.images.module import ImageDataModule, ImageOptions
from data_modules.images.transforms import Augment
from data_modules.loading.loaders import batching_of, check_share, loader_options
from data_modules.loading.module import DataOptions, SingleSet, check_least, copy_options
from data_modules.loading.samplers import limited, mix_seed
from data_modules.multi_task import samplers
from data_modules.splits import Indices
from data_modules.text.module import TextOptions, Texts, TextSet
from lgx.core.batch import Batch
from lgx.core.task import ImageSize, Task, shared_metric
from lgx.errors import UserError


@dataclass(eq=False, repr=False)
class MixOptions:
    """Options of data modules that train on several sets.

    Args:
        tasks: The data sets, by the names of ``lgx data list``.
        temperature: Temperature T of the draw of tasks; 1 draws in proportion to size, larger values more evenly,
            ``.inf`` uniformly.
        steps_per_epoch: Training steps of an epoch; by default enough for all training examples together.
        limit_eval: Largest number of validation examples per task, from a class-stratified, seeded draw. The test
            always uses all examples.
    """

    tasks: tuple[str, ...]
    _: KW_ONLY
    temperature: float = 2.0
    steps_per_epoch: int | None = None
    limit_eval: int | None = None


class SeveralSets(DataOptions, MixOptions, TaskDataModule):
    """Trains on several data sets at once, a batch of one task at each step.

    Each step draws its task with probability proportional to (N_t / sum N)^(1/T), where N_t is the number of the task's
    training examples, and takes the next batch of the task's endless, shuffled stream. Every pass over a task reads
    each example once. Validation and test read the tasks in order.

    A subclass adds the options of its kind of sets and implements :meth:`open`.

    Attributes:
        sets: The data module of each set, by name, in the order of ``tasks``.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tasks:
            raise UserError("data.tasks: expected at least one data set, got none; `lgx data list` shows all names")
        if not self.temperature > 0:
            raise UserError(f"data.temperature: expected a number above 0 (.inf is uniform), got {self.temperature}")
        check_least(self, {"steps_per_epoch": 1, "limit_eval": 1})
        TaskDataModule.__init__(self)
        self.sets: dict[str, SingleSet[Any]] = {}
        for name in self.tasks:
            module = self.open(name)
            if module.info.name in self.sets:
                raise UserError(f"data.tasks: expected different data sets, got {module.info.name} twice")
            self.sets[module.info.name] = module

    @abstractmethod
    def open(self, name: str) -> SingleSet[Any]:
        """The data module of the set called ``name``, with the options of this one.

        Raises:
            UserError: If there is no such set of this kind.
        """

    @property
    def num_classes(self) -> int:
        """Largest number of classes of a task, known before any file is read."""
        return max(module.num_classes for module in self.sets.values())

    @property
    def all_tasks(self) -> dict[str, Task]:
        """Every task by name, in the given order; ``num_train`` is exact after ``setup("fit")``."""
        return {name: module.task for name, module in self.sets.items()}

    @property
    def task(self) -> Task:
        """Summary of all tasks: largest number of classes, sum of training examples, mean and std of the first task.

        The kind of tasks of several kinds is classification.
        """
        tasks = list(self.all_tasks.values())
        if len(tasks) == 1:
            return tasks[0]
        kinds = {task.kind for task in tasks}
        return Task(
            name="multi_task",
            num_classes=self.num_classes,
            kind=kinds.pop() if len(kinds) == 1 else "classification",
            metric=shared_metric(tasks),
            num_train=sum(task.num_train for task in tasks),
            in_chans=tasks[0].in_chans,
            img_size=tasks[0].img_size,
            mean=tasks[0].mean,
            std=tasks[0].std,
            **tasks[0].reading._asdict(),
            max_len=max(task.max_len for task in tasks),
            vocab_size=tasks[0].vocab_size,
        )

    def follow_normalization(self, mean: Sequence[float], std: Sequence[float]) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`; applies to all sets."""
        return all([module.follow_normalization(mean, std) for module in self.sets.values()])

    def members(self) -> Sequence[TaskDataModule]:
        """The data module of each set."""
        return list(self.sets.values())

    @property
    def sampling_weights(self) -> dict[str, float]:
        """Probability of drawing each task, by name; they sum to 1. Known after ``setup("fit")``."""
        weights = samplers.task_weights([len(part) for part in self._parts("train").values()], self.temperature)
        return dict(zip(self.sets, weights.tolist(), strict=True))

    def fingerprint(self) -> dict[str, str]:
        """The fingerprint of every set, with its name."""
        of_sets = {name: module.fingerprint() for name, module in self.sets.items()}
        return {f"{name} {key}": text for name, parts in of_sets.items() for key, text in parts.items()}

    def prepare_data(self) -> None:
        """Let every set make or download its files."""
        for module in self.sets.values():
            module.prepare_data()

    def setup(self, stage: str) -> None:
        """Read the splits that ``stage`` needs (``fit``, ``validate``, ``test``)."""
        for module in self.sets.values():
            module.trainer = self.trainer
            module.setup(stage)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Let the set of the batch finish it on the device of the network."""
        module = self.sets.get(batch.task) if isinstance(batch, Batch) else None
        return batch if module is None else module.on_after_batch_transfer(batch, dataloader_idx)

    def train_dataloader(self) -> samplers.TaskLoader:
        """Batches of drawn tasks; the loader can resume in the middle of an epoch."""
        batching = batching_of(self, self.seed)
        sets = self._parts("train")
        sizes = {name: len(part) for name, part in sets.items()}
        weights = np.array(list(self.sampling_weights.values()))
        steps = self._steps(sum(sizes.values()))
        sampler = samplers.TaskBatchSampler(sizes, weights, steps, batching, self._lengths(sets))
        seeds = [mix_seed(self.seed, samplers.AUGMENT, name) for name in sets]  # independent of other tasks
        parts = [self.sets[name].transformed(sets[name], True, seed) for name, seed in zip(sets, seeds, strict=True)]
        options = loader_options(self.num_workers, self._collate, self.worker_timeout)
        return samplers.TaskLoader(samplers.TaskExamples(parts), batch_sampler=sampler, **options)

    def epoch_batches(self, sizes: Sequence[int]) -> int:
        """See :class:`~data_modules.base.TaskDataModule`; an incomplete last batch counts."""
        return limited(self._steps(sum(sizes)), batching_of(self, self.seed).limit)[1]

    def _steps(self, size: int) -> int:
        """Batches of an epoch over ``size`` training examples, without the trainer's limit."""
        return self.steps_per_epoch or math.ceil(size / batching_of(self, self.seed).global_batch)

    def val_dataloader(self) -> DataLoader[Any]:
        """Every validation example once (the first ``limit_eval`` of each task), task by task."""
        return self._eval_loader("val")

    def test_dataloader(self) -> DataLoader[Any]:
        """Every test example once, task by task."""
        return self._eval_loader("test")

    def predict_dataloader(self) -> DataLoader[Any]:
        """Refuse to predict several tasks at once."""
        raise UserError(
            f"data: predict one task at a time, with the data module of one of {', '.join(self.sets)} instead of "
            f"{type(self).__name__}"
        )

    def _lengths(self, parts: Mapping[str, Any]) -> dict[str, Indices] | None:
        """Length of each example of every task if batches must hold examples of similar length, else None."""
        return None

    def _parts(self, split: Split) -> dict[str, Any]:
        parts = {name: module.examples(split) for name, module in self.sets.items()}
        if split != "val" or self.limit_eval is None:
            return parts
        return {name: self.sets[name].first(part, self.limit_eval, split) for name, part in parts.items()}

    def _eval_loader(self, split: Split) -> DataLoader[Any]:
        parts = self._parts(split)
        for name, part in parts.items():
            share = check_share(self, len(part), f"{name} {split}")
        examples = samplers.TaskExamples([self.sets[name].transformed(part) for name, part in parts.items()])
        batches = samplers.eval_batches([len(part) for part in parts.values()], self.evaluation_batch, *share)
        self._check_limit(split, len(batches))
        self._check_limit("test", len(self.sets))  # before training
        options = loader_options(self.num_workers, self._collate, self.worker_timeout)
        return DataLoader(examples, batch_sampler=batches, **options)

    def _check_limit(self, split: Split, batches: int) -> None:
        """Refuse a limit of evaluation that would leave out tasks, because tasks are evaluated one after the other."""
        trainer: Any = self.trainer
        limit = getattr(trainer, f"limit_{split}_batches", 1.0)
        is_whole = limit == 0 or (limit == 1 if isinstance(limit, float) else limit >= batches)
        if len(self.sets) > 1 and not is_whole and not trainer.fast_dev_run:
            option = "overfit_batches" if trainer.overfit_batches else f"limit_{split}_batches"
            remedy = ", and use data.limit_eval" if split == "val" else ""
            raise UserError(
                f"trainer.{option}: would leave out whole tasks, because tasks are evaluated one after the other; "
                f"leave it out{remedy}"
            )

    def _collate(self, examples: Sequence[tuple[Any, Any, int]]) -> Batch:
        inputs, targets, tasks = zip(*examples, strict=True)
        module = list(self.sets.values())[tasks[0]]
        batch: Batch = module.collate(list(zip(inputs, targets, strict=True)))
        return batch


@dataclass(eq=False, repr=False)
class MultiTask(ImageOptions, SeveralSets):
    """Trains on several image sets at once.

    Args:
        tasks: The data sets: names of ``lgx data list``, or folders of your own images
            (train/<class>/<image>, test/...).
        img_size: Side in pixels, or ``[height, width]``, to which the images of all tasks are resized.
        in_chans: 1 (gray) or 3 (RGB) channels, for all tasks.
        augment_of: Augmentation of some of the tasks, by name, instead of ``augment``.
    """

    img_size: ImageSize = 224
    in_chans: Literal[1, 3] = 3
    augment_of: dict[str, Augment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.balanced:
            raise UserError("data.balanced: draws the classes of one set; MultiTask draws tasks by data.temperature")
        unknown = sorted(self.augment_of.keys() - self.sets.keys())
        if unknown:
            raise UserError(
                f"data.augment_of: {', '.join(unknown)} is not a task of this run; tasks are {', '.join(self.sets)}"
            )

    def open(self, name: str) -> ImageDataModule:
        """The data module of an image set, with the options of this one."""
        module = open_set(name, self.root)
        copy_options(ImageOptions, self, module)
        module.augment = self.augment_of.get(module.info.name, self.augment)
        return module


@dataclass(eq=False, repr=False)
class MultiText(TextOptions, SeveralSets):
    """Trains on several text sets at once.

    Batches contain texts of similar length, as for one set.

    Args:
        tasks: The text sets: names of ``lgx data list``.
        source: ``files`` or ``hub``, for all tasks, see :class:`~data_modules.text.module.TextOptions`.
        max_len: Longest text, in tokens, for all tasks.
    """

    def open(self, name: str) -> TextSet:
        """The data module of a text set, with the options of this one."""
        module = open_text(name, self.root)
        copy_options(TextOptions, self, module)
        return module

    def _lengths(self, parts: Mapping[str, Texts]) -> dict[str, Indices]:
        return {name: part.lengths for name, part in parts.items()}
