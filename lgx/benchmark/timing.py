"""Time and memory of steps."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.profiler import profile


@dataclass(frozen=True)
class Cost:
    """What a step costs.

    Attributes:
        seconds: Time of the fastest round: what slows a round down is the machine's other work, not the step.
        ratio: Over the fastest round of the reference.
        peak_mb: Most memory that its tensors took at a time, beyond what was there before it, in MiB.
    """

    seconds: float
    ratio: float
    peak_mb: float


def measure(steps: Mapping[str, Callable[[], object]], reference: str, repeats: int) -> dict[str, Cost]:
    """Time steps in turn, round by round, so that a machine's moods meet all of them.

    Args:
        steps: What to run, by name.
        reference: Name of the step that the others are compared with.
        repeats: Timed rounds, after two that are not timed; memory is measured in the second.
    """
    for step in steps.values():
        step()  # an optimizer's state is there from its first step on
    peaks = {name: peak_mb(step) for name, step in steps.items()}
    rounds = [{name: _seconds(step) for name, step in steps.items()} for _ in range(repeats)]
    least = {name: min(times[name] for times in rounds) for name in steps}
    return {name: Cost(least[name], least[name] / least[reference], peaks[name]) for name in steps}


def peak_mb(step: Callable[[], object]) -> float:
    """Most memory that the tensors of a step take at a time, beyond what was there before, in MiB."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    # Allocations as torch reports them: a process's resident memory also holds what its allocator keeps.
    with _silent_stderr(), profile(profile_memory=True) as recorded:
        step()
    taken, most = 0, 0
    assert recorded.profiler is not None
    results = recorded.profiler.kineto_results
    assert results is not None
    events = [e for e in results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        taken += event.nbytes()
        most = max(most, taken)
    return most / 2**20


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """The profiler's native code reports its starts, and that there is no GPU, on the process's standard error."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _seconds(step: Callable[[], object]) -> float:
    _synchronize()
    start = time.perf_counter()
    step()
    _synchronize()
    return time.perf_counter() - start


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
