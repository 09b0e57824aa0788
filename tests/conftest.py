"""Shared fixtures: tiny real images on disk, a trained ancestor, a way to call the command line."""

import contextlib
import io
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

os.environ.setdefault("OMP_NUM_THREADS", "1")
# The same cases in every run, however slow the machine is at a moment.
settings.register_profile("lgx", deadline=None, derandomize=True, database=None)
settings.load_profile("lgx")

ARCH = "depth=4,embed_dim=16,num_heads=2,patch_size=4,img_size=16"
CLASSES = ("circle", "square", "stripe")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def draw(label: int, rng: np.random.Generator) -> Image.Image:
    """A 16 px RGB picture of one of three shapes, noisy and shifted."""
    y, x = np.mgrid[:16, :16] - rng.integers(6, 10, size=(2, 1, 1))
    shape = [x**2 + y**2 < 20, np.maximum(abs(x), abs(y)) < 5, (x + y) % 6 < 3][label]
    image = shape[..., None] * rng.uniform(120, 220, 3) + rng.normal(30, 12, (16, 16, 3))
    return Image.fromarray(image.clip(0, 255).astype(np.uint8))


def write_images(root: Path, sizes: dict[str, int]) -> Path:
    """Write ``root/<split>/<class>/<k>.png``; sizes count images per split, spread evenly over the classes."""
    rng = np.random.default_rng(0)
    for split, size in sizes.items():
        for k in range(size):
            folder = root / split / CLASSES[k % 3]
            folder.mkdir(parents=True, exist_ok=True)
            draw(k % 3, rng).save(folder / f"{k:03d}.png")
    return root


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Random numbers depend on no test before."""
    import torch  # once the number of threads is set

    torch.manual_seed(0)


def free_port() -> int:
    """A port that no other process is handed in the meantime: those that systems choose themselves lie above."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 training, 9 validation, 12 test images of three classes."""
    return write_images(tmp_path_factory.mktemp("images") / "shapes", {"train": 48, "val": 9, "test": 12})


class Result:
    """What a command line printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def sentence(self) -> str:
        """The last line of stderr, where a mistake is explained."""
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


def lgx(*args: object) -> Result:
    """Run the command line in this process."""
    from lgx.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(a) for a in args])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Result(code, out.getvalue(), err.getvalue())


def python(*args: object, cwd: Path | None = None, timeout: int = 120, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, *(str(a) for a in args)],
        capture_output=True, text=True, timeout=timeout, cwd=cwd, env={**os.environ, **env},
    )  # fmt: skip


@pytest.fixture
def fit(images: Path, tmp_path: Path) -> Callable[..., Result]:
    """``fit("Ancestor", "--name", "a", …)`` trains on the tiny images, in one epoch of three steps unless told."""

    def run(model: str, *options: object, command: str = "fit") -> Result:
        return lgx(*arguments(command, model, images, tmp_path / "runs", *options))

    return run


def arguments(command: str, model: str, images: Path, runs: Path, *options: object) -> list[str]:
    """The command line of a tiny run."""
    base = [
        command, "--model", model, f"--model.arch={ARCH}",
        "--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=0.003",
        "--model.scheduler=lgx.components.optim.WarmupCosine",
        "--data=ImageFolderData", f"--data.root={images}", "--data.img_size=16", "--data.batch_size=16",
        f"--runs_dir={runs}", "--experiment=test",
        "--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.max_epochs=1",
        "--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false",
    ]  # fmt: skip
    return [*base, *(str(o) for o in options)]


@pytest.fixture(scope="session")
def ancestor(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of an ancestor trained on the tiny images."""
    runs = tmp_path_factory.mktemp("ancestor")
    result = lgx(*arguments("fit", "Ancestor", images, runs, "--trainer.max_epochs=8", "--name=ancestor"))
    assert result.code == 0, result.err
    return runs / "test" / "ancestor" / "seed0"


@pytest.fixture(scope="session")
def sws(images: Path, ancestor: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of an SWS learngene with stages (2, 2), distilled from the ancestor."""
    runs = tmp_path_factory.mktemp("sws")
    result = lgx(
        *arguments(
            "fit",
            "SWS",
            images,
            runs,
            "--model.stages=[2,2]",
            "--trainer.max_epochs=8",
            "--name=sws",
            f"--model.ancestor={ancestor}/best.learngene.safetensors",
        )
    )
    assert result.code == 0, result.err
    return runs / "test" / "sws" / "seed0"
