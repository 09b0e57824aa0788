"""The speed of training, measured on the machine at hand."""

import platform
import time

import torch

from lgx.errors import UserError
from lgx.methods.planned_step import PlannedStep
from lgx.planning.cost import PASSES, StepCost, TeacherCost, empty_batch, largest_task, mean_over_set, precision_of
from lgx.planning.networks import load_teacher, network_of

ROUNDS = 3
"""Steps that are timed, after one step of warm-up."""
BATCH_ON_CPU = 8
"""Most examples of a measured step on a CPU, where larger batches are not faster and may not fit into memory."""


def measure(
    step: PlannedStep, batch_size: int, precision: str, accelerator: str, cost: StepCost, teacher: TeacherCost
) -> tuple[float, str]:
    """Time forward pass, backward pass and optimizer on random weights and a synthetic batch.

    The result is FLOPs per second: the batch may be smaller than planned, and then a hypernetwork's own share of a step
    is larger. Of a set, the same architectures are timed whose FLOPs are counted.

    Args:
        step: The step of a method that knows its tasks; the method's network is replaced.
        batch_size: Examples of a batch.
        precision: Lightning's name of the precision; 32 without a GPU.
        accelerator: ``cpu`` does not use a GPU.
        cost: Cost of a step.
        teacher: Cost of the teacher.

    Returns:
        FLOPs per second, and where they were measured.

    Raises:
        UserError: If a batch does not fit on the GPU.
    """
    place = "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"
    if place == "cpu":
        batch_size, precision = min(batch_size, BATCH_ON_CPU), "32-true"
    try:
        seconds = _seconds(step, batch_size, precision, place)
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"--measure: a batch of {batch_size} does not fit on this GPU; lower data.batch_size"
        ) from error
    flops = PASSES * (cost.forward * batch_size + cost.own) + teacher.forward * batch_size
    where = f"{torch.get_num_threads()} threads of {platform.machine()} CPU"
    if place == "cuda":
        where = torch.cuda.get_device_name()
    return flops / seconds, f"measured here: {seconds:.3g} s a step of {batch_size} in {precision} on {where}"


def _seconds(step: PlannedStep, batch_size: int, precision: str, place: str) -> float:
    """Mean time of a step."""
    numbers, method = precision_of(precision), step.method
    if request := method.teacher_request():  # before the network, which may have a projection to its widths
        method.teacher = load_teacher(request.source, largest_task(method), real=True) or method.teacher
    method.network = network_of(step, numbers.weights, real=True)
    method.train().to(place)
    optimizer = method.optimizer(method.trained_groups())
    batch = empty_batch(method, largest_task(method), batch_size, numbers.weights)
    batch = batch._replace(inputs=batch.inputs.to(place), targets=batch.targets.to(place))

    def steps(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            with torch.autocast(place, numbers.autocast, numbers.autocast is not None, cache_enabled=False):
                loss = step.loss(batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if place == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    def timed() -> float:
        steps(1)
        return steps(ROUNDS)

    return mean_over_set(step, timed) if step.architectures else timed()
