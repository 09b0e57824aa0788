"""Measures time and memory of functions."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.profiler import profile


@dataclass(frozen=True)
class Cost:
    """Time and memory of a step.

    Attributes:
        seconds: Time of the fastest round. Slower rounds measure other work on the machine, not the step.
        ratio: ``seconds`` divided by those of the reference.
        peak_mb: Peak memory of its tensors in MiB, without the tensors that existed before the step.
    """

    seconds: float
    ratio: float
    peak_mb: float


def measure(steps: Mapping[str, Callable[[], object]], reference: str, repeats: int) -> dict[str, Cost]:
    """Measure time and memory of steps.

    Each round runs every step once, so that other work on the machine affects all steps alike.

    Args:
        steps: Functions to run, by name.
        reference: Name of the step that the others are compared with.
        repeats: Number of timed rounds, at least 1. Two rounds before them are not timed; the second measures memory.

    Returns:
        The cost of each step, by name.
    """
    for step in steps.values():
        step()  # the first step of an optimizer allocates its state
    peaks = {name: peak_mb(step) for name, step in steps.items()}
    rounds = [{name: _seconds(step) for name, step in steps.items()} for _ in range(repeats)]
    least = {name: min(times[name] for times in rounds) for name in steps}
    return {name: Cost(least[name], least[name] / least[reference], peaks[name]) for name in steps}


def peak_mb(step: Callable[[], object]) -> float:
    """Peak memory of the tensors that a function creates.

    Args:
        step: The function; it is called once.

    Returns:
        MiB, without the tensors that existed before the call; on the GPU if there is one, else on the CPU.
    """
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    # Sum torch's own allocations: the resident memory of a process includes freed blocks that the allocator keeps.
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


def synchronize() -> None:
    """Wait until the GPU has finished; return at once without a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard what native code writes to standard error: the profiler reports its start and a missing GPU there."""
    kept = os.dup(2)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _seconds(step: Callable[[], object]) -> float:
    synchronize()
    start = time.perf_counter()
    step()
    synchronize()
    return time.perf_counter() - start
