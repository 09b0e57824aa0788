"""A sweep that was edited after its runs had finished says so, and runs them again on request."""

from functools import wraps

import pytest
import yaml
from lightning.pytorch import Trainer

from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, lgx, ok, refusal
from tests.support.sweeps import config_of, write_chain, write_sweep


@pytest.fixture
def sweep(images, tmp_path, monkeypatch):
    """Write a sweep of an ancestor and its descendant, and run it."""
    monkeypatch.chdir(tmp_path)

    def run(*options, rate=0.003, epochs=1, smoothing=0.0):
        adamw = {"class_path": "torch.optim.AdamW", "init_args": {"lr": rate}}
        options_of_a = {"model.label_smoothing": smoothing}
        write_chain(tmp_path, images, options_of_a, model={"optimizer": adamw}, trainer={"max_epochs": epochs})
        return lgx("sweep", "sweep.yaml", *options)

    return run


def values(tmp_path):
    return {(row.method, row.metric, row.epochs): row.value for row in read_rows(tmp_path / "runs/s/measured.csv")}


def test_edited_options_are_named_and_run_again_with_the_runs_that_need_them(sweep, tmp_path):
    assert sweep().code == 0
    before = values(tmp_path)
    assert "0 of 2 runs to do" in sweep().out
    sentence = refusal(sweep(smoothing=0.3))
    assert "1 finished run(s) have changed" in sentence
    assert "--model.label_smoothing=0.3" in sentence
    assert "2 of 2 runs to do" in ok(sweep("--overwrite", smoothing=0.3)).out
    after = values(tmp_path)
    assert after.keys() == before.keys()
    assert all(after[key] != before[key] for key in before if key[1] == "loss")
    assert "0 of 2 runs to do" in sweep(smoothing=0.3).out


@pytest.mark.parametrize(
    "stopped_at", ["the run that changed", pytest.param("the run that needs it", marks=pytest.mark.slow)]
)
def test_runs_that_are_replaced_stay_to_do_until_they_have_ended(sweep, tmp_path, monkeypatch, stopped_at):
    assert sweep().code == 0
    before = values(tmp_path)
    number = 0 if stopped_at == "the run that changed" else 1
    fit, trained = Trainer.fit, 0

    @wraps(fit)
    def stop(self, *args, **kwargs):
        nonlocal trained
        fit(self, *args, **kwargs)
        trained += 1
        if trained > number:
            raise RuntimeError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "fit", stop)
        assert "stopped" in sweep("--overwrite", smoothing=0.3).sentence
    assert f"{2 - number} of 2 runs to do" in ok(sweep("--overwrite", smoothing=0.3)).out
    after = values(tmp_path)
    assert after.keys() == before.keys()
    assert all(after[key] != before[key] for key in before if key[1] == "loss")
    assert "0 of 2 runs to do" in sweep(smoothing=0.3).out


def test_a_test_that_is_run_again_leaves_no_rows_of_its_former_options(images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def measure(depth, *options):
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(config_of("Finetune", images)))
        arch = {"model.arch": ARCH.replace("depth=4", f"depth={depth}")}
        write_sweep(tmp_path, {"name": "start", "command": "test", "config": "c.yaml", "options": arch})
        ok(lgx("sweep", "sweep.yaml", *options))
        return {row.architecture for row in read_rows(tmp_path / "runs/s/measured.csv")}

    first = measure(2)
    second = measure(3, "--overwrite")
    assert len(first) == len(second) == 1
    assert first != second


def test_an_edited_configuration_is_named_and_a_longer_training_keeps_what_was_measured(sweep, tmp_path):
    assert sweep().code == 0
    sentence = refusal(sweep(rate=0.01))
    assert "2 finished run(s) have changed" in sentence
    assert "Ancestor.yaml has changed" in sentence
    ok(sweep("--overwrite", epochs=2))
    assert {key[2] for key in values(tmp_path)} == {1, 2}
