"""Every command that is killed at random moments leaves complete files, and resumes to the same result.

The commands run in forks of a process that has imported everything, so that kills happen during their work. A run that
averages its weights is killed in each of its phases.
"""

import random
import shutil
import signal
from pathlib import Path

import pytest

from data_modules import CIFAR10
from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, arguments
from tests.support.fake_data import class_tree
from tests.support.forks import Command, finish, start
from tests.support.kills import Outcome, attack, contents, of_run, of_sweep
from tests.support.sweeps import write_chain

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sweep_file(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chain(tmp_path_factory.mktemp("sweep"), images, test_start=True)


@pytest.fixture(scope="module")
def zips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10 as zip files of class folders, with 400 images."""
    folder = tmp_path_factory.mktemp("zips")
    for split, per_class in (("train", 30), ("test", 10)):
        class_tree(folder / split, list(CIFAR10.info.class_names), per_class)
        shutil.make_archive(str(folder / split), "zip", folder, split)
        shutil.rmtree(folder / split)
    return folder


@pytest.fixture(scope="module")
def commands(
    images: Path, ancestor: Path, sws: Path, sweep_file: Path, zips: Path
) -> dict[str, tuple[Command, Outcome]]:
    """Every command that writes, and the function that reads its results for the comparison."""
    fit = ["--name=r", "--trainer.max_epochs=3", "--save_every=1", "--data.augment=crop_flip", "--test_start=true"]
    init = ["init", "--source", sws / "final.learngene.safetensors", "--arch", ARCH.replace("depth=4", "depth=7")]
    prepare = ["data", "prepare", "cifar10", "--source", zips]
    embed = ["embed", "--ancestor", ancestor / "final.learngene.safetensors", "--data", images]
    return {
        "fit": (arguments("fit", "Ancestor", images, Path("runs"), *fit, "--ckpt_path=last"), of_run),
        "init": ([*init, "--seed", 3, "--out", "descendant"], contents),
        "embed": ([*embed, "--out", "tasks.safetensors"], contents),
        "data prepare": ([*prepare, "--root", "data", "--shards", "--shard_size", 20], contents),
        "sweep": (["sweep", sweep_file, "--results", "all.csv"], of_sweep),
    }


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["fit", "init", "embed", "data prepare", "sweep"])
def test_twenty_kills_lose_nothing(name, commands, tmp_path):
    args, outcome = commands[name]
    # The first run also warms caches.
    seconds = min(finish(args, tmp_path / "twice"), finish(args, tmp_path / "once"))
    expected, rng, killed = outcome(tmp_path / "once"), random.Random(name), 0
    for k in range(100):
        place, moment = tmp_path / str(k), rng.random()
        if attack(args, place, moment * seconds) == 0:
            continue  # it had finished before the kill
        killed += 1
        if outcome is contents:  # files with their final names are complete, even before the command runs again
            torn = {name for name, digest in contents(place).items() if expected[name] != digest}
            assert torn <= {"data/cifar10_shards/index.json"}  # the index grows by one split at a time
        finish(args, place)
        assert outcome(place) == expected, f"killed after {moment:.2f} of {seconds:.1f} s"
        if killed == 20:
            return
    raise AssertionError(f"only {killed} kills")


STEPS = 9
MOMENTS = [("before_update", 5), ("after_update", 8), ("validation", 6), ("fit_end", STEPS), ("test", STEPS)]


def command_of(images):
    options = ["--name=r", "--trainer.max_epochs=3", "--save_every=1", "--test_start=true", "--test_end=true"]
    callback = ["--trainer.callbacks+=EMA", "--trainer.callbacks.decay=0.5"]
    return [*arguments("fit", "Ancestor", images, "runs", *options), "--ckpt_path=last", *callback]


@pytest.fixture(scope="module")
def undisturbed_average(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed_average")
    args = command_of(images)
    finish(args, folder)
    return args, of_run(folder)


@pytest.mark.parametrize(("moment", "step"), MOMENTS)
def test_a_killed_average_resumes_to_the_same_result(undisturbed_average, tmp_path, moment, step):
    args, expected = undisturbed_average
    probe = ["--trainer.callbacks+=tests.support.probes.KillAt", f"--trainer.callbacks.step={step}"]
    killed = start([*args, *probe, f"--trainer.callbacks.moment={moment}"], tmp_path)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()[-2000:]
    finish(args, tmp_path)
    assert of_run(tmp_path) == expected


def test_a_finished_average_is_tested_with_its_final_weights_when_it_is_asked_again(undisturbed_average, tmp_path):
    args, expected = undisturbed_average
    finish(args, tmp_path)
    (tmp_path / "runs/test/r/seed0/summary.json").unlink()
    finish(args, tmp_path)
    assert of_run(tmp_path) == expected
    rows = read_rows(tmp_path / "runs/test/r/seed0/results.csv")
    assert len({row.epochs for row in rows if row.split == "test"}) == 2
