"""A family of finished networks of all sizes for one task: the training."""

import math
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lgx.architectures import Architecture, full_name, name_of
from lgx.architectures.class_order import class_order, with_class_order
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import Learngene
from lgx.components.metrics import metric_names, metrics_for, was_measured
from lgx.core.batch import Batch
from lgx.core.readable import lasting
from lgx.core.rows import Evaluation
from lgx.core.schema import check_option
from lgx.core.seed import run_seed
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Front
from lgx.initialization.sizing import Stopwatch
from lgx.methods.nested import FAMILY
from lgx.methods.nested.front import compared, describe, front_figure, grid, knee, measured_front, write_table
from lgx.methods.nested.shares import EqualCompute
from lgx.methods.nested.sizes import ANCESTOR, default_sizes, parse_size, short_names, size_text
from lgx.methods.nested.sliced_network import ORDER, SlicedNetwork
from lgx.methods.nested.slicing import skeleton

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_UPDATES = 600
"""Fewest updates of the cheapest size that a budget gives."""
_VALIDATIONS = 10
"""About how many validations a run with a budget has."""
_FORWARDS = 4.5
"""Forward passes that take as long as an update, measured with DeiT-Tiny on a CPU."""


class Family(SlicedNetwork):
    """Train one network whose slices are finished networks of every smaller size for the task.

    The slices start from the ancestor's weights; the head is new, unless the ancestor's head is for the task's classes.
    A slice of l layers has the first l - 1 layers and the last one. So the head reads the same layer in all sizes, and
    a deeper slice has the same first layers.
    Each update trains one size on a batch, from labels alone. The sizes are the listed ones, and the whole network,
    which results call ``ancestor``. All of them get the same compute, and so do random sizes between the smallest
    listed values and the whole network (:class:`~lgx.methods.nested.shares.EqualCompute`). See
    :class:`~lgx.methods.nested.sliced_network.SlicedNetwork` for the slices, and
    :class:`~lgx.methods.nested.method.Nested` for the papers.

    That one network is trained at several sizes, one after the other, is of Yu et al., "Slimmable Neural Networks",
    ICLR 2019, and Cai et al., "Once-for-All", ICLR 2020, whose steps sum the gradients of several sizes. Equal compute
    for every size is ours. In-place distillation (Yu & Huang, "Universally Slimmable Networks", ICCV 2019) is left out:
    a largest slice that has just been cut from its ancestor teaches its mistakes.

    After training, about forty sizes are measured on the validation examples (the front). ``lgx export FAMILY --params
    1.5M`` chooses from the front in the learngene file.

    Args:
        ancestor: The pretrained network: a folder, a run, or any other source.
        sizes: Sizes to train besides the whole network, as differences from it: ``depth=6,embed_dim=128``. By default
            half of the layers; half of the layers at two thirds of the width; a quarter of the layers at two thirds of
            the width with half of the MLP.
        compute: Compute of the whole training, in epochs of training the whole network. The smallest size gets at least
            600 updates. With it the run ends after so many passes over the data, and is validated about ten times;
            ``trainer.max_epochs`` and ``trainer.max_steps`` can only end it earlier; -1 is no limit. By default they
            alone give the length of the run.
        kwargs: Arguments of ``Distill`` and of every method, without those of its teacher and its start.
    """

    spec = FAMILY
    teacher_option: ClassVar[str | None] = None

    def __init__(
        self, ancestor: str, sizes: Sequence[str] | None = None, compute: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(guidance="logits", ancestor=ancestor, alpha=0.0, temperature=1.0, **kwargs)
        if compute is not None:
            check_option("compute", compute, 0 < compute < math.inf, "a positive number of epochs")
        if sizes is not None and not sizes:
            raise UserError("model.sizes: expected at least one size, e.g. [depth=6]; leave it out for three")
        self.compute, self._given = compute, sizes
        self._trained: list[str] = []  # of a checkpoint
        self.front: Front | None = None

    def check_task(self, task: Task) -> None:
        """Refuse a task without labels, and wrong sizes.

        Raises:
            UserError: If its examples have no labels or do not suit the network, or a size is no slice.
        """
        if not task.is_labeled:
            raise UserError("model Family: needs labels; to train starts without labels, give --model Nested")
        super().check_task(task)
        _ = self.listed

    def teacher_request(self) -> None:
        """None: the loss has only labels."""

    # -- sizes ----------------------------------------------------------------------------------------------------

    @cached_property
    def listed(self) -> list[Architecture]:
        """The listed sizes."""
        if self._given is None:
            return default_sizes(self.architecture)
        try:
            sizes = [parse_size(text, self.architecture) for text in self._given]
        except UserError as error:
            raise UserError(f"model.sizes: {error}") from error
        if len(set(sizes)) < len(sizes):
            raise UserError("model.sizes: lists a size twice; expected each once")
        return sizes

    @cached_property
    def measured(self) -> list[Architecture]:
        """The trained sizes: the listed ones, then the whole network."""
        return list(dict.fromkeys([*self.listed, self.architecture]))

    @cached_property
    def updates(self) -> EqualCompute:
        """The updates of each trained size, and of random sizes between the smallest listed ones and the whole."""
        return EqualCompute([*([size] for size in self.measured), self._grid])

    @cached_property
    def _grid(self) -> list[Architecture]:
        least = min(size.depth for size in self.listed), min(size.embed_dim for size in self.listed)
        return grid(self.architecture, *least)

    def draw(self, *parts: int) -> list[Architecture]:
        """The size of one update, whose number ends ``parts``."""
        return [self.updates.size(parts[-1], run_seed())]

    def numbers_of_step(self, batch_idx: int) -> tuple[int, ...]:
        """See :class:`SlicedNetwork`: the number of the update, so that accumulated batches have one size."""
        return (self.global_step,)

    # -- length of the run ----------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """See :class:`~lgx.methods.base.Method`; with ``compute`` also set the number of passes over the data."""
        super().setup(stage)
        if stage == "fit" and self.compute is not None:
            loop, passes = self.trainer.fit_loop, self._passes(self.compute)
            loop.max_epochs = passes if loop.max_epochs in (None, -1) else min(loop.max_epochs, passes)
            is_whole = loop.max_epochs == passes and self.trainer.max_steps < 0
            if is_whole and self.trainer.check_val_every_n_epoch == 1:
                self.trainer.check_val_every_n_epoch = -(-passes // _VALIDATIONS)

    def known_steps(self) -> int | None:
        """See :class:`~lgx.methods.base.Method`."""
        own = self._passes(self.compute) * self._updates_of_pass if self.compute is not None else None
        return min(filter(None, (super().known_steps(), own)), default=None)

    @property
    def _updates_of_pass(self) -> int:
        batches = self.data_module().train_dataloader().epoch_length
        return max(1, -(-batches // int(self.trainer.accumulate_grad_batches)))

    def _passes(self, compute: float) -> int:
        """Passes over the data that take so much compute; whole intervals between validations."""
        smallest = max(self.updates.shares[: len(self.measured)])
        wanted = compute * self._updates_of_pass * cost_of(self.architecture).macs / self.updates.macs
        passes = math.ceil(max(wanted, _LEAST_UPDATES / smallest) / self._updates_of_pass)
        interval = -(-passes // _VALIDATIONS)
        return -(-passes // interval) * interval

    def on_train_start(self) -> None:
        """Print the updates of each size, and about how long they take."""
        steps = self.known_steps()
        if steps is None or not self.trainer.is_global_zero:
            return
        names = [*(name or ANCESTOR for name in short_names(self.measured, self.architecture)), "random sizes"]
        counts = [f"{round(share * steps):,} of {name}" for name, share in zip(names, self.updates.shares, strict=True)]
        print(f"updates    {', '.join(counts)}{self._duration(steps)}", flush=True)
        if self.compute is not None and steps < (wanted := self._passes(self.compute) * self._updates_of_pass):
            print(f"length     max_epochs or max_steps ends the run after {steps / wanted:.0%} of model.compute")

    def _duration(self, steps: int) -> str:
        """About how long the remaining updates take, from forward passes of the whole network."""
        watch = Stopwatch(self.data_module().batch_size, self.device.type)
        share = self.updates.macs / cost_of(self.architecture).macs
        left = (steps - self.global_step) * int(self.trainer.accumulate_grad_batches)
        seconds = _FORWARDS * share * watch.measure(self.architecture) * left
        return f"; about {lasting(seconds)} without validations"

    # -- network --------------------------------------------------------------------------------------------------

    def ranked_layers(self, known: Architecture, inputs: Tensor) -> list[int]:
        """See :class:`SlicedNetwork`: the first layer, the last one, then from the front."""
        first, *others = range(known.depth)
        return [first, *others[-1:], *others[:-1]]

    def start_tensors(self, tensors: Mapping[str, Tensor], known: Architecture) -> Mapping[str, Tensor]:
        """See :class:`SlicedNetwork`: with the ancestor's head in the task's order of classes, or without a head."""
        task, names = cast(Task, self.task), self.source.label_names
        is_same = not names or not task.class_names or {*names} == {*task.class_names}
        if self.source.has_head and is_same and (known.num_classes, known.kind) == (task.num_classes, task.kind):
            place = class_order(names, task.class_names, f"ancestor {self.source.name}")
            return with_class_order(tensors, known, place)
        self.print(f"head       new, for {self.architecture.outputs}")
        return {name: tensor for name, tensor in tensors.items() if not name.startswith(known.head_prefixes)}

    def prepare(self, size: Architecture) -> nn.Module:
        """See :class:`SlicedNetwork`."""
        weight = next(self.network.parameters())
        return _network(self.with_kinds(size), self.drop_rate, self.compile_network, weight.device, weight.dtype)

    def logits(self, size: Architecture, inputs: Tensor) -> Tensor:
        """See :class:`SlicedNetwork`."""
        network, tensors = self.prepare(size).train(self.training), self.tensors_of(size)
        return cast(Tensor, functional_call(network, tensors, (inputs,), tie_weights=False))

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Loss of the update's size with the labels."""
        (size,) = self.drawn or self.draw(0)
        return {"loss": self.label_loss(self.logits(size, batch.inputs), batch.targets)}

    # -- evaluation -----------------------------------------------------------------------------------------------

    def set_tasks(self, tasks: dict[str, Task]) -> None:
        """See :class:`~lgx.methods.base.Method`; each listed size has metrics of its own.

        Raises:
            UserError: If there are several tasks.
        """
        if len(tasks) > 1:
            raise UserError(f"data.tasks: model Family needs one task, but these are {', '.join(tasks)}; name one")
        super().set_tasks(tasks)
        assert self.task is not None
        for split in ("val", "test"):
            for place in range(len(self.measured)):
                self.eval_metrics[f"{split}_metrics_{place}"] = metrics_for(self.task, split)

    def evaluations(self, split: str) -> list[Evaluation]:
        """Every listed size under its own tags."""
        task = self.task.name if self.task else ""
        short = short_names(self.measured, self.architecture)
        trained = self._trained or [size_text(size) for size in self.measured]
        return [
            Evaluation(task, full_name(size), f"{split}/{name_of(size)}", name, f"_{place}", size_text(size) in trained)
            for place, (size, name) in enumerate(zip(self.measured, short, strict=True))
        ]

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Evaluate every listed size on one batch."""
        for place, size in enumerate(self.measured):
            logits = self.logits(size, batch.inputs).float()
            for name, metric in self.update(split, logits, batch.targets, f"_{place}").items():
                self.log(f"{split}/{name_of(size)}/{name}", metric, on_step=False, on_epoch=True)

    def on_validation_epoch_end(self) -> None:
        """Log the averages over the listed sizes, which choose the best checkpoint."""
        self._log_averages("val")

    def on_test_epoch_end(self) -> None:
        """Log the averages over the listed sizes."""
        self._log_averages("test")

    def _log_averages(self, split: str) -> None:
        assert self.task is not None
        metrics = [self.metrics_of(split, f"_{place}") for place in range(len(self.measured))]
        if all(map(was_measured, metrics)):
            for name in metric_names(self.task):
                average = torch.stack([each[name].compute() for each in metrics]).mean()
                self.log(f"{split}/{name}", average, prog_bar=name == self.task.metric)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Logits of the one listed size, (B, K), float32.

        Raises:
            UserError: If several sizes are listed.
        """
        if len(self.listed) > 1:
            raise UserError("model.sizes: predictions need exactly one size; list it, e.g. [depth=6]")
        return super().predict_step(batch, batch_idx)

    # -- what the run leaves --------------------------------------------------------------------------------------

    def with_run_weights(self, folder: Path) -> dict[str, "Figure"]:
        """Measure the front."""
        if not self.trainer.enable_validation:
            return {}
        self.front = measured_front(self, [*self.measured, *self._grid])
        if self.front is None:
            return {}
        if self.trainer.is_global_zero:
            write_table(self.front, self.architecture, table := folder / "front.csv")
            count = len(self.front.scores)
            print(f"front      {count} sizes in validation, {table}; sizes better than every smaller size:")
            print(describe(self.front), flush=True)
        return {"front": front_figure(self.front, self.measured)}

    def conclusions(self) -> list[str]:
        """See :class:`~lgx.methods.base.Method`: the best slice beside the ancestor."""
        return compared(self.front, self.architecture) if self.front else []

    def next_command(self, folder: Path) -> str:
        """See :class:`~lgx.methods.base.Method`: export the smallest network that is as good as the best."""
        size = self.measured[0] if self.front is None else knee(self.front)
        return f"lgx export {shlex.quote(str(folder))} --arch {size_text(size)} --out small.onnx"

    def describe(self) -> dict[str, Any]:
        """The checkpoint's description, with the trained sizes."""
        return super().describe() | {"sizes": [size_text(size) for size in self.listed]}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`~lgx.methods.base.Method`; also learn which sizes were trained."""
        super().on_load_checkpoint(checkpoint)
        self._trained = [*checkpoint["lgx"].get("sizes", []), size_text(self.architecture)]

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The whole network, the order of its layers, and the front."""
        tensors = {name: tensor for name, tensor in state.items() if name != ORDER}
        scores = self.front.scores if self.front else {}
        selection = {"layers": list(self.layer_order), "front": {size_text(size): s for size, s in scores.items()}}
        ancestor = self.ancestor or ""
        return Learngene(self.method, self.architecture, tensors, ancestor, selection=selection, content="family")


@lru_cache(maxsize=1024)
def _network(
    size: Architecture, drop_rate: float, compiled: bool, device: torch.device, dtype: torch.dtype
) -> nn.Module:
    """A network without weights, which come with each call."""
    network: Any = skeleton(size, device, dtype, drop_rate)
    for block in size.blocks(network) if compiled else ():  # networks of all depths share compiled blocks
        block.compile()
    return cast(nn.Module, network)
