"""Random attacks on a run, each of which ends in a sentence or in the undisturbed result: ``make chaos``.

The attacks are pairs of commands, kills, limits, and signals to all processes of a run, each at a random moment.
``LGX_CHAOS=75`` makes 75 of each kind; they are the same in every run.
"""

import os
import random
import resource
import shutil
import signal
import time
from functools import cache
from pathlib import Path

import pytest

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, arguments
from tests.support.forks import Command, finish, start
from tests.support.kills import attack, ended, of_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
each_case = pytest.mark.parametrize("case", range(int(os.environ.get("LGX_CHAOS", "2"))))
RUN = Path("runs/test/r/seed0")
RESUME, ANEW, WORKERS = "--ckpt_path=last", "--model.optimizer.lr=0.01", "--data.num_workers=2"
OPTIONS = [(), (ANEW,), ("--trainer.callbacks+=EMA", "--trainer.callbacks.decay=0.5")]


def fit(images: Path, *options: str) -> Command:
    """The command line of the run."""
    own = ("--name=r", "--trainer.max_epochs=2", "--save_every=1", "--test_start=true", "--test_end=true")
    return list(arguments("fit", "Ancestor", images, Path("runs"), *own, *options))


@pytest.fixture
def commands(images) -> dict[str, Command]:
    """Command lines that use the folder of the run."""
    learngene = RUN / "final.learngene.safetensors"
    return {
        "fit": fit(images), "resume": fit(images, RESUME), "overwrite": fit(images, "--overwrite"),
        "resume or overwrite": fit(images, RESUME, "--overwrite"),
        "test": ["test", *fit(images, RESUME)[1:]],
        "compare": ["compare", "runs", "--out", "report"],
        "init": ["init", "--source", learngene, "--method", "pretrained", "--arch", ARCH, "--out", "descendant"],
        "export": ["export", RUN / "checkpoints/last.ckpt", "--out", "model"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(images, tmp_path_factory):
    """``undisturbed(*options)``: the folder of a finished run with these options, its outcome and its seconds."""

    @cache
    def finished(*options):
        folder = tmp_path_factory.mktemp("undisturbed")
        seconds = finish(fit(images, *options), folder)
        (folder / "log").unlink()
        return folder, of_run(folder), seconds

    finished()  # warms caches
    finished.cache_clear()
    return finished


def check_files(folder: Path) -> None:
    """Files with their final names are whole."""
    for pattern, read in (("*.ckpt", load_checkpoint), ("*.learngene.*", Learngene.load), ("results.csv", read_rows)):
        for path in folder.rglob(pattern):
            read(path)


@each_case
def test_two_commands_at_once(undisturbed, commands, tmp_path, case):
    rng = random.Random(f"pair {case}")
    finished, expected, seconds = undisturbed()
    if rng.random() < 0.5:
        shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    names = rng.choice(["fit", "resume", "overwrite", "resume or overwrite"]), rng.choice(list(commands))
    first = start(commands[names[0]], tmp_path, log="log0")
    time.sleep(rng.random() * seconds)
    second = start(commands[names[1]], tmp_path, log="log1")
    ended(first, tmp_path, "log0"), ended(second, tmp_path, "log1")
    check_files(tmp_path)
    assert not list(tmp_path.rglob("*.old")), "an earlier run stays aside"
    finish(commands["resume"], tmp_path)
    found = of_run(tmp_path)
    if "test" in names:  # it may measure the checkpoint of another moment, and write its rows last
        found, expected = (
            (weights, step, [row for row in rows if row[0] != "test"], learngene)
            for weights, step, rows, learngene in (found, expected)
        )
    assert found == expected, names


@each_case
def test_kills_and_interruptions_of_a_run(undisturbed, images, tmp_path, case):
    rng = random.Random(f"kill {case}")
    options = rng.choice(OPTIONS)
    if options == (ANEW,):
        shutil.copytree(undisturbed()[0], tmp_path, dirs_exist_ok=True)
    args = fit(images, RESUME, "--overwrite", *options)
    for _ in range(rng.randint(1, 3)):
        moment = rng.random() * 1.3 * undisturbed()[2]
        attack(args, tmp_path, moment, rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        check_files(tmp_path)
    finish(args, tmp_path)
    assert of_run(tmp_path) == undisturbed(*options)[1]


@each_case
def test_limits_of_files_and_memory(undisturbed, commands, tmp_path, case):
    rng = random.Random(f"limit {case}")
    name = rng.choice(["resume", "resume or overwrite", "init", "compare"])
    options = (ANEW,) if name == "resume or overwrite" else ()
    if name != "resume":
        shutil.copytree(undisturbed()[0], tmp_path, dirs_exist_ok=True)
    limits = {
        resource.RLIMIT_FSIZE: rng.randint(16, 400_000), resource.RLIMIT_NOFILE: rng.randint(16, 64),
        resource.RLIMIT_AS: rng.randint(6, 10) << 30,
    }  # fmt: skip
    kind, args = rng.choice(list(limits)), [*commands[name], *options]
    most = limits[kind] if kind == resource.RLIMIT_FSIZE else 2**63  # the log is a file, too
    ended(start(args, tmp_path, {kind: limits[kind]}), tmp_path, most=most)
    check_files(tmp_path)
    finish(args, tmp_path)
    assert not name.startswith("resume") or of_run(tmp_path) == undisturbed(*options)[1]


@each_case
def test_sigterm_to_all_processes_of_a_run_saves_it(undisturbed, images, tmp_path, case):
    rng, args = random.Random(f"group {case}"), fit(images, RESUME, "--overwrite", WORKERS)
    for _ in range(rng.randint(1, 2)):
        code = attack(args, tmp_path, rng.random() * 4 * undisturbed()[2], signal.SIGTERM)
        check_files(tmp_path)
        assert code not in (1, 2), (tmp_path / "log").read_text()[-1500:]
    finish(args, tmp_path)
    assert of_run(tmp_path) == undisturbed(WORKERS)[1]
