"""What the trainings of families and of backbones share: sizes with equal compute, the length of the run, the front."""

import math
import shlex
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lgx.architectures import Architecture
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import Learngene
from lgx.core.readable import lasting
from lgx.core.schema import check_option
from lgx.core.seed import run_seed
from lgx.errors import UserError
from lgx.initialization import Front
from lgx.initialization.sizing import Stopwatch
from lgx.methods.distillation.method import DistillGuidance
from lgx.methods.nested.front import compared, front_figure, front_text, knee, size_grid, write_table
from lgx.methods.nested.shares import EqualCompute
from lgx.methods.nested.sizes import default_sizes, parse_size, size_names, slice_text
from lgx.methods.nested.sliced_network import ORDER, SlicedNetwork

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_UPDATES = 600
"""Fewest updates of the cheapest size that a budget gives."""
_VALIDATIONS = 10
"""About how many validations a run with a budget has."""
_FORWARDS = 4.5
"""Forward passes that take as long as an update, measured with DeiT-Tiny on a CPU."""


class EqualSizes(SlicedNetwork):
    """Trains finished networks of several sizes, one size in each update, all sizes with the same compute.

    The sizes are the listed ones, which :attr:`measured` completes, and random ones between the smallest listed values
    and the whole network (:class:`~lgx.methods.nested.shares.EqualCompute`). After training, about forty sizes are
    measured (the front).

    Args:
        guidance: What the slices learn from the ancestor.
        sizes: Sizes to train besides the whole network, as differences from it: ``depth=6,embed_dim=128``. By default
            half of the layers; half of the layers at two thirds of the width; a quarter of the layers at two thirds of
            the width with half of the MLP. A family also has a quarter of the layers at the full width.
        compute: Compute of the whole training, in epochs of training the whole network. The smallest size gets at least
            600 updates. With it the run ends after so many passes over the data, and is validated about ten times;
            ``trainer.max_epochs`` and ``trainer.max_steps`` can only end it earlier; -1 is no limit. By default they
            alone give the length of the run.
        kwargs: Arguments of ``Distill`` and of every method, without those of its losses and its start.

    Attributes:
        front: The measured sizes after training; None before, and without validation.
        columns: Further scores of measured sizes, by name.
        lists_shallow: Whether a quarter of the layers at the full width is a default size. Then all measured sizes lie
            between trained ones.
    """

    lists_shallow = False

    def __init__(
        self, guidance: DistillGuidance, sizes: Sequence[str] | None = None, compute: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(guidance=guidance, alpha=0.0, temperature=1.0, **kwargs)
        if compute is not None:
            check_option("compute", compute, 0 < compute < math.inf, "a positive number of epochs")
        if sizes is not None and not sizes:
            raise UserError("model.sizes: expected at least one size, e.g. [depth=6]; leave it out for three")
        self.compute, self.sizes = compute, sizes
        self._trained: list[str] = []  # of a checkpoint
        self.front: Front | None = None
        self.columns: dict[str, Mapping[Architecture, float]] = {}

    # -- sizes ----------------------------------------------------------------------------------------------------

    @cached_property
    def listed(self) -> list[Architecture]:
        """The listed sizes."""
        if self.sizes is None:
            return default_sizes(self.architecture, self.lists_shallow)
        try:
            return list(dict.fromkeys(parse_size(text, self.architecture) for text in self.sizes))
        except UserError as error:
            raise UserError(f"model.sizes: {error}") from error

    @cached_property
    def updates(self) -> EqualCompute:
        """The updates of each trained size, and of random sizes between the smallest listed ones and the whole."""
        return EqualCompute([*([size] for size in self.measured), self.grid], self.fixed_cost)

    @property
    def asks_ancestor(self) -> bool:
        """Whether every update computes the ancestor's answers."""
        return self.guidance == "features"

    @property
    def fixed_cost(self) -> float:
        """What an update of every size costs besides its own passes: a third of the ancestor's pass."""
        return cost_of(self.architecture).macs / 3 if self.asks_ancestor else 0

    @cached_property
    def grid(self) -> list[Architecture]:
        """Sizes between the smallest listed values and the whole network."""
        least = min(size.depth for size in self.listed), min(size.embed_dim for size in self.listed)
        return size_grid(self.architecture, *least)

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
            loop = self.trainer.fit_loop
            passes = self._passes(self.compute)
            loop.max_epochs = passes if loop.max_epochs in (None, -1) else min(loop.max_epochs, passes)
            is_whole = loop.max_epochs == passes and self.trainer.max_steps < 0
            if is_whole and self.trainer.check_val_every_n_epoch == 1:
                self.trainer.check_val_every_n_epoch = -(-passes // _VALIDATIONS)

    def planned_steps(self) -> int | None:
        """See :class:`~lgx.methods.base.Method`."""
        return min(filter(None, (super().planned_steps(), self._steps_of_compute)), default=None)

    @property
    def _steps_of_compute(self) -> int | None:
        return None if self.compute is None else self._passes(self.compute) * self._updates_of_pass

    @property
    def _updates_of_pass(self) -> int:
        batches = self.data_module().train_dataloader().epoch_length
        return max(1, -(-batches // int(self.trainer.accumulate_grad_batches)))

    def _passes(self, compute: float) -> int:
        """Passes over the data that take so much compute; whole intervals between validations."""
        smallest = max(self.updates.shares[: len(self.measured)])
        wanted = compute * self._updates_of_pass * cost_of(self.architecture).macs / self.updates.mean_cost
        passes = math.ceil(max(wanted, _LEAST_UPDATES / smallest) / self._updates_of_pass)
        interval = -(-passes // _VALIDATIONS)
        return -(-passes // interval) * interval

    def on_train_start(self) -> None:
        """Print the updates of each size, and about how long they take."""
        steps = self.planned_steps()
        if steps is None or not self.trainer.is_global_zero:
            return
        *names, _ = size_names([*self.measured, self.architecture], self.architecture)
        names.append("random sizes")
        counts = [f"{round(share * steps):,} of {name}" for name, share in zip(names, self.updates.shares, strict=True)]
        print(f"updates    {', '.join(counts)}{self._duration(steps)}", flush=True)
        wanted = self._steps_of_compute
        if wanted is not None and steps < wanted:
            print(f"length     max_epochs or max_steps ends the run after {steps / wanted:.0%} of model.compute")

    def _duration(self, steps: int) -> str:
        """About how long the remaining updates take, from forward passes of the whole network; empty for texts.

        Texts are shorter than the longest one, which would be measured.
        """
        if self.architecture.reads_text:
            return ""
        watch = Stopwatch(self.data_module().batch_size, self.device.type)
        share = self.updates.mean_cost / cost_of(self.architecture).macs
        left = (steps - self.global_step) * int(self.trainer.accumulate_grad_batches)
        seconds = _FORWARDS * share * watch.measure(self.architecture) * left
        return f"; about {lasting(seconds)} without validations"

    # -- network --------------------------------------------------------------------------------------------------

    def ranked_layers(self, ancestor: Architecture, inputs: Tensor) -> list[int]:
        """See :class:`SlicedNetwork`: the first layer, the last one, then from the front."""
        first, *others = range(ancestor.depth)
        return [first, *others[-1:], *others[:-1]]

    # -- what the run leaves --------------------------------------------------------------------------------------

    def with_run_weights(self, folder: Path) -> dict[str, "Figure"]:
        """Measure the front."""
        if not self.trainer.enable_validation:
            return {}
        self.front = self.measure([*self.measured, *self.grid])
        if self.front is None:
            return {}
        if self.trainer.is_global_zero:
            table = folder / "front.csv"
            write_table(self.front, self.architecture, table, self.columns)
            count = len(self.front.scores)
            print(f"front      {count} sizes in validation, {table}; sizes better than every smaller size:")
            print(front_text(self.front), flush=True)
        return {"front": front_figure(self.front, self.measured, self.architecture)}

    @abstractmethod
    def measure(self, sizes: Sequence[Architecture]) -> Front | None:
        """Measure finished networks of these sizes in validation; None if none has a score."""

    def conclusions(self) -> list[str]:
        """See :class:`~lgx.methods.base.Method`: the best slice beside the ancestor."""
        return compared(self.front, self.architecture) if self.front else []

    def next_command(self, folder: Path) -> str:
        """See :class:`~lgx.methods.base.Method`: export the smallest network that is as good as the best."""
        size = self.measured[0] if self.front is None else knee(self.front)
        return f"lgx export {shlex.quote(str(folder))} --arch {slice_text(size)} --out small.onnx"

    def describe(self) -> dict[str, Any]:
        """The checkpoint's description, with the trained sizes."""
        return super().describe() | {"sizes": [slice_text(size) for size in self.listed]}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`~lgx.methods.base.Method`; also learn which sizes were trained."""
        super().on_load_checkpoint(checkpoint)
        self._trained = [*checkpoint["lgx"].get("sizes", []), slice_text(self.architecture)]

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The whole network, the order of its layers, and the front."""
        tensors = {name: tensor for name, tensor in state.items() if name != ORDER}
        scores = self.front.scores if self.front else {}
        measured = [scores[size] for size in self.measured if size in scores]
        metrics = {f"val/{self.front.metric}": fmean(measured)} if self.front and measured else {}
        selection = {"layers": list(self.layer_order), "front": {slice_text(size): s for size, s in scores.items()}}
        ancestor = self.ancestor or ""
        return Learngene(
            self.method, self.architecture, tensors, ancestor, metrics=metrics, selection=selection,
            content=self.spec.learngene,
        )  # fmt: skip
