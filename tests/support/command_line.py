"""Run the command line on tiny networks."""

import contextlib
import importlib
import io
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

ARCH = "depth=4,embed_dim=16,num_heads=2,patch_size=4,img_size=16"
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
ACCELERATOR = os.environ.get("LGX_TEST_ACCELERATOR", "cpu")
"""Where tiny runs train: ``make gpu`` runs tests with ``auto``."""


def free_port() -> int:
    """A free port below the range from which systems choose ports, so that no other process gets it in the meantime."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(what: Callable[[], object], seconds: float, words: str, why: Callable[[], str] = str) -> None:
    """Wait until a function returns something true; the message says what never came, and why."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {words}\n{why()}"
        time.sleep(0.2)


class Result:
    """What a command line printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def sentence(self) -> str:
        """The last line of stderr, which explains a mistake."""
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


def program(module: str, *args: object) -> Result:
    """Run the main function of a program in this process."""
    main: Callable[[list[str]], None] = importlib.import_module(module).main
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(a) for a in args])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Result(code, out.getvalue(), err.getvalue())


def ok(result: Result, about: str = "") -> Result:
    """The result of a command line that must succeed; ``about`` stands before what it says otherwise."""
    assert result.code == 0, f"{about}\n{result.err}"
    return result


def refusal(result: Result) -> str:
    """The sentence with which a command line must be refused."""
    assert result.code == 2, result.err
    assert "Traceback" not in result.err, result.err
    return result.sentence


lgx = partial(program, "lgx.cli")
analyze, reproduce = (partial(program, f"experiments.{name}.__main__") for name in ("analyze", "reproduce"))


def python(*args: object, cwd: Path | None = None, timeout: int = 120, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python in another process."""
    return subprocess.run(
        [sys.executable, *(str(a) for a in args)],
        capture_output=True, text=True, timeout=timeout, cwd=cwd, env={**os.environ, **env},
    )  # fmt: skip


def arguments(command: str, model: str, images: Path, runs: Path, *options: object) -> list[str]:
    """The command line of a tiny run."""
    base = [
        command, "--model", model, f"--model.arch={ARCH}",
        "--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=0.003",
        "--model.scheduler=lgx.components.optim.WarmupCosine",
        "--data=ImageFolderData", f"--data.root={images}", "--data.img_size=16", "--data.batch_size=16",
        f"--runs_dir={runs}", "--experiment=test",
        f"--trainer.accelerator={ACCELERATOR}", "--trainer.devices=1", "--trainer.max_epochs=1",
        *([] if ACCELERATOR == "cpu" else ["--trainer.precision=32-true"]),
        "--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false",
    ]  # fmt: skip
    return [*base, *(str(o) for o in options)]
