"""Every command that is killed at random moments leaves complete files, and resumes to the same result.

The commands run in forks of a process that has imported everything, so that kills happen during their work. The run
averages its weights.
"""

import random
import shutil
from pathlib import Path

import pytest

from data_modules import CIFAR10
from tests.support.command_line import ARCH, arguments
from tests.support.fake_data import class_tree
from tests.support.forks import Command, finish
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
    fit += ["--test_end=true", "--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.decay=0.5"]
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
