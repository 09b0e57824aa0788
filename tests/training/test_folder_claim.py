"""A run folder is claimed by one process at a time, replaced only on request, and may be a symbolic link."""

import shutil
from pathlib import Path

import pytest

from lgx.core.rows import read_rows
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.forks import held_elsewhere


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def finished(images, tmp_path_factory):
    runs = tmp_path_factory.mktemp("finished")
    ok(lgx(*arguments("fit", "Ancestor", images, runs, "--name=a")))
    return runs


@pytest.fixture
def run(finished, tmp_path):
    """Folder of a finished run called ``a``."""
    shutil.copytree(finished, tmp_path / "runs")
    return tmp_path / "runs/test/a/seed0"


@pytest.mark.parametrize("options", [[], ["--overwrite"], ["--ckpt_path=last", "--trainer.max_epochs=2"]])
def test_a_run_that_another_process_trains_is_left_alone(fit, run, options):
    before = contents(run)
    with held_elsewhere(run):
        assert "another process trains this run" in refusal(fit("Ancestor", "--name=a", *options))
    assert contents(run) == before


MISTAKES = """--data.root=nowhere --model.arch=depth=2,embed_dim=15,num_heads=2,patch_size=4,img_size=16
    --model.arch=depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=32 --model.optimizer.lr=-1
    --data.batch_size=1000""".split()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_overwrite_with_a_mistake_keeps_the_earlier_run(fit, run, mistake):
    before = contents(run)
    refusal(fit("Ancestor", "--name=a", "--overwrite", mistake))
    assert contents(run).items() >= before.items()


@pytest.mark.parametrize(
    ("method", "option", "name"),
    [("SWS", "model.ancestor", "final.learngene.safetensors"), ("Ancestor", "data.root", "checkpoints")],
)
def test_what_its_successor_reads_is_not_replaced(fit, run, method, option, name):
    before = contents(run)
    stages = ["--model.stages=[2,2]"] if method == "SWS" else []
    sentence = refusal(fit(method, "--name=a", "--overwrite", *stages, f"--{option}={run / name}"))
    assert f"{option}: {run / name} belongs to the run that --overwrite replaces" in sentence
    assert contents(run) == before


def test_overwrite_keeps_files_of_somebody_else(fit, run):
    (run / "checkpoints/thesis.txt").write_text("years of work")
    ok(fit("Ancestor", "--name=a", "--overwrite", "--model.optimizer.lr=0.01"))
    assert "lr: 0.01" in (run / "config.yaml").read_text()
    assert len(list(run.glob("events.out.tfevents.*"))) == 1
    assert (run / "checkpoints/thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("options", [[], ["--ckpt_path=last"]])
def test_a_folder_with_a_learngene_and_a_configuration_is_a_run(fit, run, options):
    for path in run.rglob("*"):
        if path.is_file() and path.name not in ("config.yaml", "final.learngene.safetensors"):
            path.unlink()
    assert "already holds a run" in refusal(fit("Ancestor", "--name=a", *options))
    assert (run / "final.learngene.safetensors").exists()


def test_a_symbolic_link_as_run_folder_stays_and_its_target_is_replaced(fit, tmp_path):
    target = tmp_path / "elsewhere"
    target.mkdir()
    link = tmp_path / "runs/test/a/seed0"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    assert fit("Ancestor", "--name=a").code == 0
    assert fit("Ancestor", "--name=a", "--overwrite", "--model.optimizer.lr=0.01").code == 0
    assert link.is_symlink()
    assert "lr: 0.01" in (target / "config.yaml").read_text()


def test_a_checkpoint_of_another_run_does_not_unlock_a_used_folder(fit, run, ancestor):
    (run / "checkpoints/last.ckpt").unlink()
    for options in ([f"--ckpt_path={ancestor}/checkpoints/last.ckpt"], []):
        assert "already holds a run" in refusal(fit("Ancestor", "--name=a", *options))
    assert read_rows(run / "results.csv")


def test_a_saved_configuration_repeats_the_run_and_neither_resumes_nor_overwrites_by_itself(fit, tmp_path):
    assert fit("Ancestor", "--name=a", "--overwrite=true").code == 0
    config = tmp_path / "runs/test/a/seed0/config.yaml"
    assert lgx("fit", "--config", config, "--name", "b").code == 0
    a, b = ([r.value for r in read_rows(tmp_path / f"runs/test/{n}/seed0/results.csv")] for n in "ab")
    assert a == b
    assert str(tmp_path / "runs/test/a") not in (tmp_path / "runs/test/b/seed0/config.yaml").read_text()
    assert fit("Ancestor", "--name=a", "--ckpt_path=last", "--trainer.max_epochs=2").code == 0
    assert "already holds a run" in lgx("fit", "--config", config).sentence
    assert lgx("test", "--config", config).code == 0
