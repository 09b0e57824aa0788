"""Run single training steps of a method to count them.

The network and the teacher are real; the inputs of a batch have shapes but no memory (torch's fake tensors), so that
all that follows from them takes no time. Where a step depends on values that follow from the inputs, a few real
examples are run instead, and where it is short, a whole real batch.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.autograd.graph import saved_tensors_hooks

from lgx.core.batch import Batch
from lgx.core.flops import flop_counter
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.training.step_flops import Estimate, Size, size_of

ENOUGH = 0.01
"""Standard error of the mean FLOPs of a step at which no more steps are run: it is then known within 2 %."""
FEWEST, FEWEST_DRAWN, MOST, MOST_REAL = 3, 10, 200, 10
"""Steps that are run: the fewest, also where steps draw networks, and the most, also where steps need values."""
DRAWS = 2000
"""Steps of a run whose networks are drawn; more would not change the mean."""
_FEW = 2
"""Examples of a real batch where steps need values."""
_GOLDEN = (5**0.5 - 1) / 2
"""Share of a run between two steps that are run, modulo 1, so that any number of them is spread evenly."""
_SHORT = 1e10
"""FLOPs of a step below which real batches take less time than inputs without memory."""
_NEEDS_VALUES = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)


class Precision(NamedTuple):
    """Number types of a precision.

    Attributes:
        weights: Type of parameters, gradients and inputs.
        autocast: Type of products where it differs; None otherwise.
    """

    weights: torch.dtype
    autocast: torch.dtype | None


_DOUBLE, _SINGLE = Precision(torch.float64, None), Precision(torch.float32, None)
_BF16, _FP16 = Precision(torch.float32, torch.bfloat16), Precision(torch.float32, torch.float16)
PRECISIONS = {
    "64-true": _DOUBLE, "64": _DOUBLE, "32-true": _SINGLE, "32": _SINGLE, "bf16-mixed": _BF16, "bf16": _BF16,
    "16-mixed": _FP16, "16": _FP16, "bf16-true": Precision(torch.bfloat16, None),
    "16-true": Precision(torch.float16, None),
}  # fmt: skip


def precision_of(name: str) -> Precision:
    """Number types of one of Lightning's precisions."""
    if name not in PRECISIONS:
        raise UserError(f"trainer.precision: {name} cannot be planned; choose one of {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


class Step(NamedTuple):
    """What one training step takes.

    Attributes:
        flops: Floating-point operations.
        saved: Bytes that its forward pass keeps for the backward pass.
        gradients: Bytes of its gradients.
    """

    flops: float
    saved: float
    gradients: int


class Trial:
    """Training steps of a method, which has its network.

    Args:
        method: The method.
        trainer: Its trainer, or what stands in its place: ``global_step`` and ``current_epoch`` are set.
        batch_size: Examples of a batch.
        precision: Types of numbers.

    Attributes:
        needs_values: Number of steps that depended on values which follow from the inputs.
    """

    def __init__(self, method: Method, trainer: Any, batch_size: int, precision: Precision) -> None:
        self.method, self.trainer, self.batch_size, self.precision = method, trainer, batch_size, precision
        self.task = max(method.tasks.values(), key=lambda task: task.num_classes)
        self.needs_values = 0
        self._batch_idx = 0
        self._is_short = False
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._first = self.batch(1, is_real=False)

    def mean(self) -> tuple[float, Step]:
        """FLOPs of an average step of the run, and the step that takes most.

        Steps that draw networks are estimated from the sizes of these, see :mod:`lgx.training.step_flops`.
        """
        total = self.trainer.total_steps
        every = np.linspace(0, total, min(total, DRAWS), endpoint=False).astype(int).tolist()
        sizes = [self._size(number) for number in every]
        spread = [int(len(every) * (number * _GOLDEN % 1)) for number in range(4 * len(every))]
        order = list(dict.fromkeys([sizes.index(max(sizes)), *spread, *range(len(every))]))
        fewest = min(FEWEST_DRAWN if any(map(any, sizes)) else FEWEST, len(every))
        chosen: dict[int, Step] = {}
        for place in order[:MOST]:
            chosen[place] = self.run(every[place])
            is_enough = len(chosen) >= fewest and _error([sizes[p] for p in chosen], chosen) <= ENOUGH
            if is_enough or self.needs_values >= MOST_REAL:
                break
        estimate = Estimate([sizes[p] for p in chosen], [step.flops for step in chosen.values()])
        most = max(chosen.values(), key=lambda step: step.saved)
        if len(chosen) == len(every):
            return float(np.mean([step.flops for step in chosen.values()])), most
        return estimate.of(np.mean(sizes, 0).tolist()), most

    def run(self, number: int) -> Step:
        """Run one step of the run."""
        self._size(number)
        if not self._is_short:
            try:
                step = self._run(self.batch(self.batch_size, is_real=False))
            except _NEEDS_VALUES:
                self.needs_values += 1
            else:
                self._is_short = step.flops < _SHORT
                return step
        examples = self.batch_size if self._is_short else min(_FEW, self.batch_size)
        step = self._run(self.batch(examples, is_real=True))
        share = self.batch_size / examples
        self._is_short = step.flops * share < _SHORT
        return step._replace(flops=step.flops * share, saved=step.saved * share)

    def _size(self, number: int) -> Size:
        """Begin a step, and measure what it has drawn."""
        place = self.trainer.accumulate_grad_batches * number
        self.trainer.global_step = number
        self.trainer.current_epoch, self._batch_idx = divmod(place, self.trainer.batches_per_epoch)
        self.method.on_train_batch_start(self._first, self._batch_idx)
        return size_of(self.method.drawn)

    def _run(self, batch: Batch) -> Step:
        network = self.method.network
        precision = self.precision
        saved: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            saved[_key(tensor)] = tensor.untyped_storage().nbytes()
            return tensor.detach()  # an output that its own graph holds would never be freed without a backward pass

        # Lightning disables this cache too: layers that share weights then each convert their own copy.
        autocast = torch.autocast("cpu", precision.autocast, precision.autocast is not None, cache_enabled=False)
        with flop_counter() as counter:
            with saved_tensors_hooks(note, lambda tensor: tensor), autocast:
                loss = self.method.training_step(batch, self._batch_idx)
            loss.backward()
        for tensor in (*network.parameters(), *network.buffers()):
            saved.pop(_key(tensor), None)
        gradients = sum(p.grad.nbytes for p in network.parameters() if p.grad is not None)
        self.method.zero_grad(set_to_none=True)
        self.method.step_losses = {}
        return Step(float(counter.get_total_flops()), sum(saved.values()), gradients)

    def batch(self, size: int, is_real: bool) -> Batch:
        """A batch of the task: images, or texts of the maximum length; the inputs have no memory, unless real."""
        task = self.task
        with nullcontext() if is_real else self._fake:
            if task.reads_text:
                inputs = torch.ones(size, 3, task.max_len, dtype=torch.long)
            else:
                inputs = torch.rand(size, *task.image_shape, dtype=self.precision.weights)
        pixels = task.image_shape[1:]
        several = (task.num_classes,)
        shapes = {"segmentation": pixels, "multilabel": several, "language": (task.max_len,)}
        targets = torch.zeros(size, *shapes.get(task.kind, ()), dtype=torch.long)
        return Batch(inputs, targets, task.name)


def _error(sizes: Sequence[Size], chosen: Any) -> float:
    """Relative standard error of the mean of counted steps, beside their estimates."""
    flops = [step.flops for step in chosen.values()]
    estimate = Estimate(sizes, flops)
    rest = np.array([value - estimate.of(size) for size, value in zip(sizes, flops, strict=True)])
    return float(np.sqrt(np.mean(rest**2) / max(1, len(flops) - 3)) / np.mean(flops))


def stored(tensors: Sequence[Tensor]) -> int:
    """Bytes of tensors; shared storage counts once."""
    return sum({_key(tensor): tensor.untyped_storage().nbytes() for tensor in tensors}.values())


def held(network: nn.Module) -> int:
    """Bytes of a network's parameters and buffers; shared ones count once."""
    return stored([*network.parameters(), *network.buffers()])


def _key(tensor: Tensor) -> int:
    """A number that identifies a tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


def optimizer_bytes(method: Method) -> int | None:
    """Bytes of the optimizer's state, measured by one step on parameters without memory.

    Returns:
        None where the optimizer does not work on such parameters.
    """
    groups = method.trained_groups()
    for group in groups:
        group["params"] = [nn.Parameter(torch.empty(p.shape, dtype=p.dtype, device="meta")) for p in group["params"]]
        for parameter in group["params"]:
            parameter.grad = torch.empty_like(parameter)
    try:
        optimizer = method.optimizer(groups)
    except ValueError as error:
        raise UserError(f"model.optimizer: {' '.join(str(error).split())}") from error
    for group in optimizer.param_groups:
        group |= {"fused": False} if group.get("fused") else {}  # the same state, but no kernel for meta tensors
    try:
        optimizer.step()
    except (RuntimeError, NotImplementedError):
        return None
    values: list[Any] = [value for state in optimizer.state.values() for value in state.values()]
    return stored([value for value in values if isinstance(value, Tensor)])
