"""Runs and configurations that a released version wrote: they parse, start descendants and resume."""

import shutil
from pathlib import Path

import pytest
import yaml

from lgx.core.rows import Row, read_rows
from lgx.training.migrations import migrate
from tests.data.released.make import DATA, KEPT
from tests.parity_data import write_images
from tests.support.command_line import lgx

RELEASED = Path(__file__).parents[1] / "data" / "released"
CONFIGS = sorted(path.stem for path in (RELEASED / "configs").glob("*.yaml"))

OLD = ("lgx.initializers", "lgx.optim.", "SearchedExpansion", "learngene: ", "hypernet: ", "neighbour")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the released files, as the working directory, with the images that the runs read."""
    shutil.copytree(RELEASED, tmp_path / "released", ignore=shutil.ignore_patterns("*.py", "*.md", "__pycache__"))
    for seed, (name, sizes) in enumerate(DATA.items()):
        write_images(tmp_path / "released" / name, sizes, seed)
    monkeypatch.chdir(tmp_path / "released")
    return tmp_path / "released"


def losses(path: Path) -> dict[tuple[str, str, int], float]:
    def key(row: Row) -> tuple[str, str, int]:
        return row.task, row.split, row.epochs

    return {key(row): row.value for row in read_rows(path) if row.metric == "loss" and row.split != "test"}


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_a_released_run_resumes_to_the_released_result(folder, name):
    options = ["--ckpt_path=last", "--trainer.max_epochs=4"]
    result = lgx("fit", f"--config=trained/released/{name}/seed0/config.yaml", *options)
    assert result.code == 0, result.err
    resumed = losses(folder / f"trained/released/{name}/seed0/results.csv")
    assert resumed == pytest.approx(losses(folder / f"four_epochs/{name}.csv"), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_a_released_configuration_starts_a_descendant(folder, name):
    result = lgx("fit", f"--config=configs/{name}.yaml", "--trainer.fast_dev_run=true")
    assert result.code == 0, result.err


def test_nothing_old_is_left_in_a_migrated_configuration():
    for path in RELEASED.rglob("*.yaml"):
        text = yaml.safe_dump(migrate(yaml.safe_load(path.read_text())))
        assert not [old for old in OLD if old in text], path
