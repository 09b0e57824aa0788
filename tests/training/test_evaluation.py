"""``lgx validate``, ``lgx test`` and ``lgx predict`` on a checkpoint."""

import json

from lgx.core.rows import read_rows
from tests.support.command_line import lgx, ok, refusal
from tests.support.runs import curves


def test_predictions_name_the_right_images_in_any_order_of_loading(fit, ancestor, images, tmp_path):
    path = f"--ckpt_path={ancestor}/checkpoints/best.ckpt"
    assert fit("Ancestor", path, "--name=p", command="predict").code == 0
    lines = (tmp_path / "runs/test/p/seed0/predictions.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["index", *map(str, range(12))]
    assert {line.split(",")[2] for line in lines[1:]} <= {"circle", "square", "stripe"}
    files = sorted(path.relative_to(images / "test").as_posix() for path in (images / "test").rglob("*.png"))
    assert [line.split(",")[6] for line in lines] == ["file", *files]
    assert [line.split(",")[5] for line in lines] == ["true_name", *(file.split("/")[0] for file in files)]


def test_validate_and_test_of_a_checkpoint_agree_with_the_run(fit, ancestor, tmp_path):
    ok(fit("Ancestor", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", "--name=again", command="validate"))
    by_epoch = {r.epochs: r for r in read_rows(ancestor / "results.csv") if r.metric == "acc"}
    (again,) = [r for r in read_rows(tmp_path / "runs/test/again/seed0/results.csv") if r.metric == "acc"]
    assert again.value == by_epoch[again.epochs].value == max(row.value for row in by_epoch.values())
    assert again.n == by_epoch[again.epochs].n


def test_predict_can_be_limited_to_some_batches(fit, ancestor, tmp_path):
    some = ["--data.batch_size=5", "--trainer.limit_predict_batches=1"]
    ok(fit("Ancestor", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", "--name=p", *some, command="predict"))
    lines = (tmp_path / "runs/test/p/seed0/predictions.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["index", *map(str, range(10))]  # twice as many as in training


def test_evaluation_without_a_checkpoint_is_refused(fit):
    for command in ("test", "validate", "predict"):
        sentence = refusal(fit("Ancestor", command=command))
        assert "no run is there" in sentence
        assert "--untrained" in sentence
    assert fit("Ancestor", "--untrained=true", "--name=u", command="test").code == 0


def test_the_scores_of_a_checkpoint_stand_at_its_step_of_the_curves(fit, tmp_path):
    run = tmp_path / "runs/test/c/seed0"
    options = ["--name=c", "--trainer.max_epochs=2", "--trainer.log_every_n_steps=1"]
    assert fit("Ancestor", *options, "--test_start=true").code == 0
    before = curves(run)
    assert [step for step, _ in before["test/acc"]] == [0]
    for command, path in (("test", "last"), ("validate", "last")):
        ok(lgx(command, "--config", run / "config.yaml", "--ckpt_path", path))
    after = curves(run)
    steps = max(step for step, _ in before["train/loss"]) + 1
    assert [step for step, _ in after["test/acc"]] == [0, steps]
    assert after["val/acc"][-1] == (steps, after["val/acc"][1][1])
    old, new = (found["epoch"] for found in (before, after))
    assert [value for _, value in new][: len(old)] == [value for _, value in old]
    assert {value for step, value in new if step >= steps} <= {1.0, 2.0}


def test_a_resumed_run_tests_at_its_own_last_step(fit, tmp_path):
    run = tmp_path / "runs/test/r/seed0"
    assert fit("Ancestor", "--name=r", "--trainer.max_epochs=1").code == 0
    more = ["--name=r", "--trainer.max_epochs=3", "--ckpt_path=last", "--test_end=true"]
    assert fit("Ancestor", *more).code == 0
    assert [step for step, _ in curves(run)["test/acc"]] == [9]
    assert json.loads((run / "summary.json").read_text())["epochs"] == 3


def test_the_final_weights_of_a_run_that_averages_are_tested(fit, tmp_path):
    averages = ["--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.decay=0.5"]
    assert fit("Finetune", "--name=e", *averages).code == 0
    ok(lgx("test", "--config", tmp_path / "runs/test/e/seed0/config.yaml", "--ckpt_path=last"))
