"""What the attacks of ``make chaos`` share: a finished run, and how its commands may end."""

import os
import shutil
import signal
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, arguments
from tests.support.forks import Command, finish
from tests.support.kills import RunOutcome, of_run

RUN = Path("runs/test/r/seed0")
LEARNGENE = RUN / "best.learngene.safetensors"
PATIENCE = 150.0
"""Seconds after which a command counts as hanging."""


@dataclass(frozen=True)
class World:
    """What the cases share: images, a finished run, undisturbed results by options, and the seconds of a run."""

    images: Path
    finished: Path
    expected: dict[tuple[str, ...], RunOutcome]
    seconds: float

    def fit(self, *options: str) -> Command:
        """The command line of the run."""
        own = ("--name=r", "--trainer.max_epochs=2", "--save_every=1", "--test_start=true", "--test_end=true")
        return list(arguments("fit", "Ancestor", self.images, Path("runs"), *own, *options))

    def outcome(self, folder: Path, *options: str) -> RunOutcome:
        """The undisturbed result with these options, computed once."""
        if options not in self.expected:
            place = folder.with_name(f"{folder.name}-undisturbed")
            finish(self.fit(*options), place)
            self.expected[options] = of_run(place)
        return self.expected[options]


RESUME = "--ckpt_path=last"
INIT = ["init", "--source", LEARNGENE, "--method", "pretrained", "--arch", ARCH, "--out", "descendant"]


def ended(process: BaseProcess, folder: Path, log: str = "log") -> int:
    """Wait for a command; it must end with a sentence."""
    process.join(PATIENCE)
    if process.exitcode is None:
        send(process, signal.SIGKILL)
        raise AssertionError(f"hangs: {(folder / log).read_text(errors='replace')[-1000:]}")
    text = (folder / log).read_text(errors="replace") if (folder / log).exists() else ""
    assert "Traceback (most recent call last)" not in text, text[-3000:]
    said = f"exit {process.exitcode}: {text[-1500:]}"
    # SIGTERM ends a command at once, unless it trains: then it saves first.
    assert process.exitcode in (0, 1, 2, 130, 143, -signal.SIGKILL, -signal.SIGTERM), said
    if process.exitcode in (1, 2):
        assert text.strip().splitlines()[-1:], said
        assert text.strip().splitlines()[-1].startswith("lgx "), said
    return process.exitcode


def await_start(process: BaseProcess) -> None:
    """Wait until the command runs: before, a signal would reach the test's own process."""
    while process.exitcode is None and os.getpgid(process.pid or 0) != process.pid:
        time.sleep(0.001)


def send(process: BaseProcess, number: signal.Signals) -> None:
    """Signal a command and its children."""
    assert process.pid is not None
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:  # it has no process group yet
        os.kill(process.pid, number)


def check_files(folder: Path) -> None:
    """Files with their final names are whole."""
    for path in folder.rglob("*"):
        if path.suffix == ".ckpt":
            load_checkpoint(path)
        elif path.name.endswith(".learngene.safetensors"):
            Learngene.load(path)
        elif path.name == "results.csv":
            read_rows(path)


def copy_finished(world: World, folder: Path) -> None:
    """Put the finished run into a folder."""
    shutil.copytree(world.finished, folder, dirs_exist_ok=True)
