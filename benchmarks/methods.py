"""Training steps of every method: their time, and the memory of a GPU beside what ``lgx plan`` says."""

import gc
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.fit_steps import timed_run
from benchmarks.steps import device
from lgx.architectures import parse_architecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.core.task import Task
from lgx.planning.configured import configure
from lgx.planning.plan import plan_of

TEACHER, STAGES = "--model.ancestor={teacher}", "--model.stages=[3,3,3,3]"
ONE = ("--data=PocketDecathlon", "--data.task=digits")
SEVERAL = ("--data=MultiTask", "--data.tasks=[pocket_digits,pocket_glyphs,pocket_textures]")
PREDICTS = ("--model.set_size=4", "--model.meta_batch=1")
"""Options of hypernetworks: they train one of four architectures in each step."""

METHODS: dict[str, tuple[str, ...]] = {
    "Finetune": (), "Distill": (TEACHER,), "SWS": (STAGES, TEACHER), "TLEG": (), "MiniDeiT": (STAGES,),
    "Nested": (TEACHER, "--data.labels=false"), "Family": (TEACHER,), "LSAMD": (TEACHER,), "WAVE": ("--model.size=48",),
    "LeTs": (TEACHER, "--model.narrow_depth=4"), "LoGAH": PREDICTS, "TAL": (TEACHER, *PREDICTS), "GHN3": PREDICTS,
}  # fmt: skip
"""Class of a method -> its options."""


def measure_method(method: str, arch: str, root: str, batch: int, steps: int) -> list[dict[str, Any]]:
    """Train a method with ``lgx fit`` for some steps.

    Args:
        method: A key of :data:`METHODS`.
        arch: Architecture that is trained, and that of the ancestor.
        root: Folder of the pocket sets; the images are resized to those of the architecture.
        batch: Images of a step.
        steps: Timed steps.

    Returns:
        One row: ``what``, the method; ``seconds`` of its median step; ``images_per_s``; ``peak_mb`` of tensors on the
        GPU (0 without one); ``planned_mb``, the memory of ``lgx plan``; and ``ratio``, ``peak_mb`` divided by it.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        line = command(method, arch, root, batch, Path(folder))
        planned = plan_of(configure(line)).memory.total
        with _peak() as peak:
            seconds = timed_run(line, folder, steps, held)[1].seconds()
    row = {"what": method, "seconds": seconds, "images_per_s": batch / seconds}
    return [row | {"peak_mb": peak[0], "planned_mb": planned / 2**20, "ratio": peak[0] * 2**20 / planned}]


def command(method: str, arch: str, root: str, batch: int, folder: Path) -> list[str]:
    """Options of a run on one pocket set, or on three sets for a method that learns several."""
    architecture = parse_architecture(arch, num_classes=10)
    teacher = folder / f"ancestor{SUFFIX}"
    task = Task("digits", 10, img_size=architecture.img_size)
    Learngene("ancestor", architecture, dict(architecture.build().state_dict()), task=task.to_dict()).save(teacher)
    own = [option.replace("{teacher}", str(teacher)) for option in METHODS[method]]
    run = pocket_run(root, batch, architecture.img_size, SEVERAL if method in ("LSAMD", "TAL") else ONE)
    return [f"--model={method}", f"--model.arch={arch}", *run, *own]


def pocket_run(root: str, batch: int, pixels: object, sets: Sequence[str] = ONE) -> list[str]:
    """Options of ``lgx fit`` for the optimizer, and for pocket sets whose images are resized."""
    optimizer = ["--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=1e-4"]
    options = {"root": root, "img_size": pixels, "batch_size": batch, "num_workers": loader_processes()}
    return [*optimizer, *sets, *(f"--data.{name}={value}" for name, value in options.items())]


def loader_processes() -> int:
    """Loader processes of a run: with a GPU one for each core, at most 8."""
    return min(len(os.sched_getaffinity(0)), 8) if device() == "cuda" else 0


@contextmanager
def _peak() -> Iterator[list[float]]:
    """The first number is set when the block ends: MiB of the tensors that the block creates, 0 without a GPU."""
    found = [0.0]
    gc.collect()
    if device() != "cuda":
        yield found
        return
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    yield found
    found[0] = (torch.cuda.max_memory_allocated() - before) / 2**20
