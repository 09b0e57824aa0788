"""``lgx validate``, ``lgx test`` and ``lgx predict`` on a checkpoint."""

import csv
import json

import pytest

from lgx.core.rows import read_rows
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.images import write_images
from tests.support.runs import curves


def test_evaluations_of_a_checkpoint_agree_with_the_run_and_predict_can_be_limited(fit, ancestor, tmp_path):
    ok(fit("Ancestor", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", "--name=again", command="validate"))
    by_epoch = {r.epochs: r for r in read_rows(ancestor / "results.csv") if r.metric == "acc"}
    (again,) = [r for r in read_rows(tmp_path / "runs/test/again/seed0/results.csv") if r.metric == "acc"]
    assert again.value == by_epoch[again.epochs].value == max(row.value for row in by_epoch.values())
    assert again.n == by_epoch[again.epochs].n
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


def test_a_resumed_run_tests_at_its_own_last_step(fit, tmp_path):
    run = tmp_path / "runs/test/r/seed0"
    assert fit("Ancestor", "--name=r", "--trainer.max_epochs=1").code == 0
    more = ["--name=r", "--trainer.max_epochs=3", "--ckpt_path=last", "--test_end=true"]
    assert fit("Ancestor", *more).code == 0
    assert [step for step, _ in curves(run)["test/acc"]] == [9]
    assert json.loads((run / "summary.json").read_text())["epochs"] == 3


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A network that always names the larger class of an uneven set: its folder and what it printed."""
    root = tmp_path_factory.mktemp("uneven")
    images = write_images(root / "shapes", {"train": 48, "val": 9, "test": 12})
    rare = sorted((images / "test").iterdir())[0]
    for file in sorted(rare.iterdir())[1:]:
        file.unlink()
    options = ["--name=r", "--test_end", "--model.optimizer.lr=0", "--trainer.max_epochs=1"]
    result = ok(lgx(*arguments("fit", "Ancestor", images, root / "runs", *options)))
    return root / "runs/test/r/seed0", result.out, rare.name


def test_a_test_writes_the_scores_of_each_class_and_names_what_one_answer_for_all_would_reach(run):
    folder, out, rare = run
    with (folder / "test_classes.csv").open() as file:
        lines = list(csv.DictReader(file))
    counts = {line["class"]: int(line["examples"]) for line in lines}
    assert counts[rare] == 1
    assert sum(counts.values()) == 9
    recalls = [float(line["recall"]) for line in lines]
    (balanced,) = (r.value for r in read_rows(folder / "results.csv") if r.metric == "balanced_acc")
    assert balanced == pytest.approx(sum(recalls) / 3)
    assert "<svg" in (folder / "confusion.svg").read_text()
    (final,) = (line for line in out.splitlines() if line.startswith("final"))
    assert " 44.4 %)" in final.partition("(chance 33.3 %, largest class ")[2]  # four of nine


def test_the_final_weights_of_a_run_that_averages_are_tested(fit, tmp_path):
    averages = ["--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.decay=0.5"]
    assert fit("Finetune", "--name=e", *averages).code == 0
    ok(lgx("test", "--config", tmp_path / "runs/test/e/seed0/config.yaml", "--ckpt_path=last"))
