"""Counted FLOPs against those that torch counts in a whole run."""

import shutil
from pathlib import Path

import pytest

from lgx.core.flops import flop_counter
from lgx.errors import UserError
from lgx.results.run_records import RunRecord
from lgx.results.sweep_costs import training_flops
from tests.support.command_line import arguments, lgx, ok

ARCH = "--model.arch=depth={depth},embed_dim=192,num_heads=3,patch_size=8,img_size=64"
SIZED = (
    "--data.img_size=64", "--data.batch_size=8", "--trainer.limit_train_batches=2", "--trainer.limit_val_batches=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def teacher(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ancestor of the size of the others."""
    runs = tmp_path_factory.mktemp("flops")
    ok(lgx(*arguments("fit", "Ancestor", images, runs, ARCH.format(depth=4), *SIZED)))
    return next(runs.rglob("final.learngene.safetensors"))


@pytest.fixture(scope="module")
def templates(images: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """WAVE's templates."""
    runs = tmp_path_factory.mktemp("templates")
    options = [ARCH.format(depth=2), *SIZED, f"--model.ancestor={teacher}"]
    ok(lgx(*arguments("fit", "WAVE", images, runs, *options)))
    return next(runs.rglob("final.learngene.safetensors"))


RUNS = {
    "scratch": ("Finetune", 2, ["--trainer.accumulate_grad_batches=4"]),
    "layers": ("Finetune", 2, [
        "--model.initializer=LayerChoice", "--model.initializer.source={teacher}", "--model.head=new"]),
    "cloned": ("Finetune", 2, ["--model.initializer=WeightSubcloning", "--model.initializer.source={teacher}",
                               "--model.initializer.data={images}/train", "--model.head=new"]),
    "mimetic": ("Finetune", 2, ["--model.initializer=Mimetic"]),
    "last layers": ("Finetune", 4, [
        "--model.initializer=VanillaLG", "--model.initializer.source={teacher}", "--model.head=new"]),
    "selected": ("Finetune", 2, [
        "--model.initializer=WeightSelection", "--model.initializer.source={teacher}", "--model.head=new"]),
    "pruned": ("Finetune", 2, [
        "--model.initializer=StructuredPruning", "--model.initializer.source={teacher}", "--model.head=new"]),
    "logits": ("Distill", 2, ["--model.ancestor={teacher}"]),
    "features": ("Distill", 2, ["--model.ancestor={teacher}", "--model.guidance=features", "--data.labels=false"]),
    "stages": ("SWS", 4, ["--model.ancestor={teacher}", "--model.stages=[2,2]"]),
    "linear": ("TLEG", 4, ["--model.ancestor={teacher}"]),
    "templates": ("WAVE", 4, ["--model.ancestor={teacher}", "--model.start=middle"]),
    "scalers": ("WAVE", 2, ["--model.ancestor={teacher}", "--model.templates={templates}", "--model.start=middle"]),
}  # fmt: skip
FAST = ("scratch", "cloned", "features")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_counted_flops_are_those_of_a_whole_run(name, fit, teacher, images, tmp_path, request, monkeypatch):
    monkeypatch.setattr("lgx.cli._write_report", lambda *facts: "none")  # it measures latencies
    model, depth, options = RUNS[name]
    templates = request.getfixturevalue("templates") if name == "scalers" else None
    given = [option.format(teacher=teacher, templates=templates, images=images) for option in options]
    with flop_counter() as counter:
        result = fit(model, ARCH.format(depth=depth), *SIZED, "--name=counted", *given)
    assert result.code == 0, result.err
    record = RunRecord.at(tmp_path / "runs/test/counted/seed0")
    assert training_flops(record) + record.start_flops == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_the_flops_of_a_run_whose_teacher_is_gone_are_refused(fit, teacher, tmp_path):
    lent = Path(shutil.copy(teacher, tmp_path / "lent.learngene.safetensors"))
    assert fit("Distill", ARCH.format(depth=2), *SIZED, "--name=lent", f"--model.ancestor={lent}").code == 0
    lent.unlink()
    with pytest.raises(UserError, match=r"lent\.learngene\.safetensors"):
        training_flops(RunRecord.at(tmp_path / "runs/test/lent/seed0"))
