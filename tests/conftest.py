"""Shared fixtures: tiny images on disk, trained networks, and a function that trains."""

import atexit
import gc
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests.support.command_line import Result, arguments, lgx, ok
from tests.support.extras import import_transformers
from tests.support.images import write_images

os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.set_threshold(50_000, 20, 100)  # a million objects of imports stay
if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(os._exit, 0)  # the system frees in no time what Python takes ten seconds to free

# The same examples in every run, also on a slow machine, and whatever modules with numbers are imported.
providers.is_local_module_file = lambda path: False  # type: ignore[assignment]
settings.register_profile("lgx", deadline=None, derandomize=True, database=None)
settings.load_profile("lgx")


GROWTH = 2**19
"""KiB by which the process grows before finished runs are collected."""
_peak = 0


def _collect_finished_runs() -> None:
    """Free networks of finished runs, which are in cycles with their trainers, once the process has grown.

    This process collects so rarely that they would stay until its end.
    """
    global _peak
    if (peak := getrusage(RUSAGE_SELF).ru_maxrss) > _peak + GROWTH:
        _peak = peak
        gc.collect()


def pytest_collection_finish() -> None:
    """Let the garbage collector not look again at modules and tests, which stay; exports time few passes."""
    global _peak
    from lgx.initialization import sizing  # imports torch

    sizing._MOST_SECONDS = 0
    gc.collect()
    gc.freeze()
    _peak = getrusage(RUSAGE_SELF).ru_maxrss


def pytest_unconfigure() -> None:
    """Give back what is frozen, so that modules in C do not report it as leaked."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of a GPU where there is none, and free what earlier tests have left."""
    import torch  # after the number of threads is set

    _collect_finished_runs()
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the pixels of each test in a folder of its own; what lgx knows of itself is the same for all."""
    base = tmp_path_factory.getbasetemp() / "caches"
    own = base / uuid.uuid4().hex
    (base / "facts").mkdir(parents=True, exist_ok=True)
    own.mkdir()
    (own / "facts").symlink_to(base / "facts")
    monkeypatch.setenv("LGX_CACHE", str(own))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Seed torch, so that random numbers do not depend on earlier tests."""
    import torch  # after the number of threads is set

    torch.manual_seed(0)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 training, 9 validation, 12 test images of three classes."""
    return write_images(tmp_path_factory.mktemp("images") / "shapes", {"train": 48, "val": 9, "test": 12})


@pytest.fixture
def fit(images: Path, tmp_path: Path) -> Callable[..., Result]:
    """``fit("Ancestor", "--name", "a", …)`` trains on the tiny images, for one epoch of three steps by default."""

    def run(model: str, *options: object, command: str = "fit") -> Result:
        return lgx(*arguments(command, model, images, tmp_path / "runs", *options))

    return run


@pytest.fixture(scope="session")
def ancestor(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of an ancestor trained on the tiny images."""
    runs = tmp_path_factory.mktemp("ancestor")
    ok(lgx(*arguments("fit", "Ancestor", images, runs, "--trainer.max_epochs=8", "--name=ancestor")))
    return runs / "test" / "ancestor" / "seed0"


@pytest.fixture(scope="session")
def sws(images: Path, ancestor: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of an SWS learngene with stages (2, 2), distilled from the ancestor."""
    runs = tmp_path_factory.mktemp("sws")
    taught = ["--model.stages=[2,2]", f"--model.ancestor={ancestor}/final.learngene.safetensors"]
    ok(lgx(*arguments("fit", "SWS", images, runs, *taught, "--trainer.max_epochs=8", "--name=sws")))
    return runs / "test" / "sws" / "seed0"


@pytest.fixture(scope="session")
def text_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny text sets, and the vocabulary where data modules look for it."""
    from tests.support.fake_text import write_sets, write_vocabulary  # imports torch, as above

    import_transformers()
    root = write_sets(tmp_path_factory.mktemp("texts"))
    write_vocabulary(root / "gpt2_vocab")
    return root


@pytest.fixture(scope="session")
def ancestor_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Learngene file of a whole untrained network."""
    from tests.support.untrained_learngenes import write_ancestor

    return write_ancestor(str(tmp_path_factory.mktemp("files") / "ancestor.learngene.safetensors"))


@pytest.fixture(scope="session")
def sws_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Learngene file of three untrained layers of SWS."""
    from tests.support.untrained_learngenes import write_sws

    return write_sws(str(tmp_path_factory.mktemp("files") / "sws.learngene.safetensors"))
