"""What a test says of single classes, on a real run."""

import csv

import pytest

from lgx.core.rows import read_rows
from tests.support.command_line import arguments, lgx, ok
from tests.support.images import write_images


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


def test_a_test_writes_the_scores_of_each_class(run):
    folder, _, rare = run
    with (folder / "test_classes.csv").open() as file:
        lines = list(csv.DictReader(file))
    counts = {line["class"]: int(line["examples"]) for line in lines}
    assert counts[rare] == 1
    assert sum(counts.values()) == 9
    recalls = [float(line["recall"]) for line in lines]
    (balanced,) = (r.value for r in read_rows(folder / "results.csv") if r.metric == "balanced_acc")
    assert balanced == pytest.approx(sum(recalls) / 3)
    assert "<svg" in (folder / "confusion.svg").read_text()


def test_rows_of_a_test_have_the_metrics_of_classes_and_those_of_a_validation_do_not(run):
    rows = read_rows(run[0] / "results.csv")
    assert [r.metric for r in rows if r.split == "test"] == ["acc", "balanced_acc", "ece", "loss"]
    assert {r.metric for r in rows if r.split == "val"} == {"acc", "loss"}


def test_the_report_names_what_one_answer_for_all_would_reach(run):
    _, out, rare = run
    final = next(line for line in out.splitlines() if line.startswith("final"))
    assert "(chance 33.3 %, always " in final
    assert " 44.4 %)" in final  # four of nine
    assert "(95 %: " in final
    assert f"{rare} " in next(line for line in out.splitlines() if "least recall" in line) or "0.0 %" in out


def test_a_gallery_shows_the_most_confident_mistakes_and_random_predictions(run):
    text = (run[0] / "gallery.svg").read_text()
    assert text.count(">as ") == 5 + 9  # five of nine are wrong
    names = [file.name for file in (run[0].parents[3] / "shapes/test").rglob("*.png")]
    assert len(names) == 9
    assert min(text.count(f">{name}<") for name in names) == 1
    assert sum(text.count(f">{name}<") for name in names) == 5 + 9
    assert "most confident mistakes" in text
    assert "\ufffd" not in text
