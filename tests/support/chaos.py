"""``make chaos``: random attacks on runs, each of which must end in a sentence or in the undisturbed result.

The attacks are pairs of commands, kills, limits, and signals to all processes of a run, each at a random moment.
``python -m tests.support.chaos --seed 0 --cases 300`` runs them; ``--only 17`` repeats one.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, arguments
from tests.support.forks import Command, finish, start
from tests.support.images import write_images
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


AVERAGES: list[tuple[str, ...]] = [
    (),
    ("--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.decay=0.5"),
    (
        "--trainer.callbacks+=StochasticWeightAveraging", "--trainer.callbacks.swa_lrs=0.01",
        "--trainer.callbacks.swa_epoch_start=1",
    ),
]  # fmt: skip
ANEW = ("--model.optimizer.lr=0.01",)
WORKERS = "--data.num_workers=2"


def pair(world: World, rng: random.Random, folder: Path) -> str:
    """Two commands at the same time, on a fresh or on a finished run."""
    began_finished = rng.random() < 0.5
    if began_finished:
        copy_finished(world, folder)
    commands: dict[str, Command] = {
        "fit": world.fit(),
        "resume": world.fit(RESUME),
        "overwrite": world.fit("--overwrite"),
        "resume or overwrite": world.fit(RESUME, "--overwrite"),
        "test": ["test", *world.fit(RESUME)[1:]],
        "compare": ["compare", "runs", "--out", "report"],
        "init": INIT,
        "export": ["export", RUN / "checkpoints/last.ckpt", "--out", "model"],
    }
    names = [rng.choice(["fit", "resume", "overwrite", "resume or overwrite"]), rng.choice(list(commands))]
    folder.mkdir(parents=True, exist_ok=True)
    first = start(commands[names[0]], folder, log="log0")
    time.sleep(rng.random() * world.seconds)
    second = start(commands[names[1]], folder, log="log1")
    codes = ended(first, folder, "log0"), ended(second, folder, "log1")
    check_files(folder)
    assert not list(folder.rglob("*.old")), "an earlier run stays aside"
    finish(world.fit(RESUME), folder)
    found, expected = of_run(folder), world.outcome(folder)
    if "test" in names:  # it may measure the checkpoint of another moment, and write its rows last
        found, expected = (
            (weights, step, [row for row in rows if row[0] != "test"], learngene)
            for weights, step, rows, learngene in (found, expected)
        )
    assert found == expected
    return f"{names[0]} and {names[1]}, {'finished' if began_finished else 'fresh'}: {codes}"


def kill(world: World, rng: random.Random, folder: Path) -> str:
    """A run is killed or interrupted at random moments, once to three times, and resumed."""
    options = rng.choice([*AVERAGES, ANEW])
    replaces = options == ANEW
    if replaces:
        copy_finished(world, folder)
    done = []
    for _ in range(rng.randint(1, 3)):
        process = start(world.fit(RESUME, "--overwrite", *options), folder)
        await_start(process)
        process.join(rng.random() * 1.3 * world.seconds)
        number = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        if process.exitcode is None:
            send(process, number)
        done.append(f"{number.name}:{ended(process, folder)}")
        check_files(folder)
    finish(world.fit(RESUME, "--overwrite", *options), folder)
    assert of_run(folder) == world.outcome(folder, *options)
    return f"{' '.join(options) or 'plain'}: {' '.join(done)}"


LIMITS = {resource.RLIMIT_FSIZE: "FSIZE", resource.RLIMIT_NOFILE: "NOFILE", resource.RLIMIT_AS: "AS"}


def limit(world: World, rng: random.Random, folder: Path) -> str:
    """A command meets a limit of files, file sizes or memory; without the limit it succeeds."""
    name = rng.choice(["fit", "init", "compare", "overwrite"])
    if name != "fit":
        copy_finished(world, folder)
    commands = {
        "fit": world.fit(RESUME),
        "overwrite": world.fit(RESUME, "--overwrite", *ANEW),
        "init": INIT,
        "compare": ["compare", "runs", "--out", "report"],
    }
    kind = rng.choice(list(LIMITS))
    highest = {resource.RLIMIT_FSIZE: 400_000, resource.RLIMIT_NOFILE: 64}
    value = rng.randint(16, highest[kind]) if kind in highest else rng.randint(6, 10) << 30
    code = ended(start(commands[name], folder, {kind: value}), folder)
    check_files(folder)
    finish(commands[name], folder)
    if name in ("fit", "overwrite"):
        assert of_run(folder) == world.outcome(folder, *(ANEW if name == "overwrite" else ()))
    return f"{name} with {LIMITS[kind]} {value}: {code}"


def group(world: World, rng: random.Random, folder: Path) -> str:
    """All processes of a run with loader processes get SIGTERM, once or twice: it is saved, and resumed bit for bit."""
    done = []
    for _ in range(rng.randint(1, 2)):
        process = start(world.fit(RESUME, "--overwrite", WORKERS), folder)
        await_start(process)
        process.join(rng.random() * 4 * world.seconds)
        if process.exitcode is None:
            send(process, signal.SIGTERM)
        done.append(ended(process, folder))
        assert done[-1] not in (1, 2), (folder / "log").read_text()[-1500:]
        check_files(folder)
    finish(world.fit(RESUME, "--overwrite", WORKERS), folder)
    assert of_run(folder) == world.outcome(folder, WORKERS)
    return f"{done}"


CASES: list[Callable[[World, random.Random, Path], str]] = [pair, kill, limit, group]


def make_world(folder: Path) -> World:
    """Make images, and train the run once."""
    images = write_images(folder / "shapes", {"train": 48, "val": 9, "test": 12})
    world = World(images, folder / "finished", {}, 0.0)
    finish(world.fit(), folder / "warm")
    seconds = finish(world.fit(), world.finished)
    (world.finished / "log").unlink()
    return World(images, world.finished, {(): of_run(world.finished)}, seconds)


def attack(world: World, seed: int, number: int, folder: Path) -> tuple[str, str | None]:
    """Run one case, by seed and number; what was done, and what was found. Without a find its folder is removed."""
    rng = random.Random(f"{seed}-{number}")
    case = CASES[number % len(CASES)]
    try:
        done = case(world, rng, folder)
    except Exception:
        return case.__name__, traceback.format_exc()
    shutil.rmtree(folder)
    return f"{case.__name__}: {done}", None


def main() -> None:
    """Run the cases, and exit with status 1 if one of them found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="chaos-"))
    world = make_world(place)
    print(f"an undisturbed run takes {world.seconds:.1f} s; files of what is found stay in {place}", flush=True)
    numbers = range(options.cases) if options.only is None else [options.only]
    found, began = 0, time.monotonic()
    for number in numbers:
        done, what = attack(world, options.seed, number, place / f"case{number}")
        print(f"{number:4} {done}" if what is None else f"{number:4} FOUND by {done}\n{what}", flush=True)
        found += what is not None
    print(f"{len(numbers)} cases, {found} found something, {time.monotonic() - began:.0f} s")
    if found:
        sys.exit(1)
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
