"""``SeveralSets``: the base of the data modules that train on several data sets."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from data_modules.base import Split, TaskDataModule, batching_of, process_of
from data_modules.loading import module_options
from data_modules.options import DataOptions, MixOptions
from data_modules.single import SingleSet
from data_modules.splits import Indices
from data_modules.task_sampler import (
    TaskBatchSampler,
    TaskEvalSampler,
    TaskExamples,
    TaskLoader,
    augment_seed,
    task_weights,
)
from lgx.core.batch import Batch
from lgx.core.task import Task, shared_metric
from lgx.errors import UserError


class SeveralSets(DataOptions, MixOptions, TaskDataModule):
    """Trains on several data sets at once, a batch of one task at each step.

    Each step draws its task with probability proportional to (N_t / sum N)^(1/T), where N_t is the number of the
    task's training examples, and takes the next batch of that task's own endless, shuffled stream: every pass over a
    task reads each of its examples once, however small the task is. Validation and test read the tasks in order.

    A subclass adds the options of its kind of sets and implements :meth:`open`.

    Attributes:
        sets: The data module of each set, by name, in the order of ``tasks``.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_mix()
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

    # -- what methods see ---------------------------------------------------------------------------------------

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
            max_len=max(task.max_len for task in tasks),
            vocab_size=tasks[0].vocab_size,
        )

    def follow_normalization(self, mean: Sequence[float], std: Sequence[float]) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`; all sets follow it."""
        return all([module.follow_normalization(mean, std) for module in self.sets.values()])

    def members(self) -> Sequence[TaskDataModule]:
        """The data module of each set."""
        return list(self.sets.values())

    @property
    def sampling_weights(self) -> dict[str, float]:
        """Probability of drawing each task, by name; they sum to 1. Known after ``setup("fit")``."""
        weights = task_weights([len(part) for part in self._parts("train")], self.temperature)
        return dict(zip(self.sets, weights.tolist(), strict=True))

    def fingerprint(self) -> dict[str, str]:
        """The fingerprint of every set, with its name."""
        found = {name: module.fingerprint() for name, module in self.sets.items()}
        return {f"{name} {key}": text for name, parts in found.items() for key, text in parts.items()}

    # -- Lightning hooks ----------------------------------------------------------------------------------------

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

    def train_dataloader(self) -> TaskLoader:
        """Batches of drawn tasks; the loader can resume in the middle of an epoch."""
        batching = batching_of(self, self.batch_size, self.seed)
        found = dict(zip(self.sets, self._parts("train"), strict=True))
        sizes = {name: len(part) for name, part in found.items()}
        weights = np.array(list(self.sampling_weights.values()))
        steps = self.steps_per_epoch or math.ceil(sum(sizes.values()) / batching.global_batch)
        sampler = TaskBatchSampler(sizes, weights, steps, batching, self._lengths(found))
        parts = [
            self.sets[name].transformed(part, train=True, seed=augment_seed(self.seed, name))
            for name, part in found.items()
        ]
        options = module_options(self, self._collate, self.batch_size)
        return TaskLoader(TaskExamples(parts), batch_sampler=sampler, **options)

    def val_dataloader(self) -> DataLoader[Any]:
        """Every validation example once (the first ``limit_eval`` of each task), task by task."""
        return self._eval_loader("val")

    def test_dataloader(self) -> DataLoader[Any]:
        """Every test example once, task by task."""
        return self._eval_loader("test")

    def predict_dataloader(self) -> DataLoader[Any]:
        """Refuse to predict several tasks at once.

        Raises:
            UserError: Always.
        """
        raise UserError(
            f"data: predict one task at a time, with the data module of one of {', '.join(self.sets)} instead of "
            f"{type(self).__name__}"
        )

    # -- helpers ------------------------------------------------------------------------------------------------

    def _lengths(self, parts: Mapping[str, Any]) -> dict[str, Indices] | None:
        """Length of each example of every task if batches must hold examples of similar length, else None."""
        return None

    def _parts(self, split: Split) -> list[Any]:
        parts = [module.examples(split) for module in self.sets.values()]
        if split != "val" or self.limit_eval is None:
            return parts
        modules = self.sets.values()
        return [module.first(part, self.limit_eval, split) for module, part in zip(modules, parts, strict=True)]

    def _eval_loader(self, split: Split) -> DataLoader[Any]:
        parts, (rank, world_size) = self._parts(split), process_of(self)
        for name, part in zip(self.sets, parts, strict=True):
            if len(part) < world_size:
                raise UserError(f"{name} {split}: {len(part)} examples for {world_size} processes; use fewer processes")
        examples = [module.transformed(part) for module, part in zip(self.sets.values(), parts, strict=True)]
        sampler = TaskEvalSampler([len(part) for part in parts], self.evaluation_batch, rank, world_size)
        options = module_options(self, self._collate, self.evaluation_batch)
        return DataLoader(TaskExamples(examples), batch_sampler=sampler, **options)

    def _collate(self, examples: Sequence[tuple[Any, Any, int]]) -> Batch:
        inputs, targets, tasks = zip(*examples, strict=True)
        module = list(self.sets.values())[tasks[0]]
        batch: Batch = module.collate(list(zip(inputs, targets, strict=True)))
        return batch
