"""Training steps to measure, the ordinary step that others are compared with, and their time and memory."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import profile

from lgx.architectures import ViTArchitecture

PRECISIONS = {"32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Name of a precision -> type that autocast computes with; ``32`` and ``tf32`` are without autocast."""


def device() -> str:
    """Type of the device to measure on: ``cuda`` if there is a GPU, else ``cpu``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def autocast(precision: str) -> AbstractContextManager[None]:
    """Context in which the forward pass computes with a precision, a key of :data:`PRECISIONS`.

    Matrix products of float32 are computed in TF32 from now on if that is the precision, else in float32.
    """
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    return torch.autocast(device(), dtype=PRECISIONS[precision], enabled=PRECISIONS[precision] != torch.float32)


def random_images(architecture: ViTArchitecture, batch: int) -> tuple[Tensor, Tensor]:
    """Random images of an architecture's size and channels, (B, C, H, W), and class indices, (B,)."""
    images = torch.randn(batch, *architecture.example_input().shape[1:], device=device())
    return images, torch.randint(architecture.num_classes, (batch,), device=device())


def training_step(module: nn.Module, loss: Callable[[], Tensor], precision: str) -> Callable[[], None]:
    """A training step of a module: its loss, a scalar, the backward pass, and AdamW in its fastest implementation."""
    optimizer = torch.optim.AdamW(module.parameters(), 1e-4, fused=True)

    def step() -> None:
        with autocast(precision):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ordinary_step(
    architecture: ViTArchitecture, batch: int, precision: str, compiled: bool = False
) -> Callable[[], None]:
    """The reference: a training step of timm's ViT on ``batch`` random images and labels."""
    model = architecture.build().to(device())
    if compiled:
        model.compile()
    inputs, targets = random_images(architecture, batch)
    return training_step(model, lambda: F.cross_entropy(model(inputs), targets), precision)


def measure(steps: Mapping[str, Callable[[], object]], reference: str, repeats: int) -> dict[str, dict[str, Any]]:
    """Measure time and memory of steps.

    Each round runs every step once, so that other work on the machine affects all steps alike.

    Args:
        steps: Functions to run, by name.
        reference: Name of the step that the others are compared with.
        repeats: Number of timed rounds, at least 1. Two rounds before them are not timed; the second measures memory.

    Returns:
        Name -> row with ``what``, its name; ``seconds`` of its fastest round, because slower rounds measure other work
        on the machine; ``ratio`` of these seconds to those of the reference; and ``peak_mb``, see :func:`peak_mb`.
    """
    for step in steps.values():
        step()  # the first step of an optimizer allocates its state
    peaks = {name: peak_mb(step) for name, step in steps.items()}
    rounds = [{name: _seconds(step) for name, step in steps.items()} for _ in range(repeats)]
    least = {name: min(times[name] for times in rounds) for name in steps}
    return {
        name: {"what": name, "seconds": least[name], "ratio": least[name] / least[reference], "peak_mb": peaks[name]}
        for name in steps
    }


def peak_mb(step: Callable[[], object]) -> float:
    """Peak memory of the tensors that a function creates, in MiB; on the GPU if there is one, else on the CPU.

    The function is called once; tensors that existed before the call do not count.
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
