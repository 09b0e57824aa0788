"""Tables of experiments/README.md, recomputed from the committed rows."""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from lgx.results.statistics import summarize

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
STARTS = {
    "random": "random",
    "mimetic": "mimetic",
    "vanilla_lg": "Vanilla-LG",
    "weight_selection": "weight selection",
    "weight_subcloning": "weight subcloning",
    "sws": "SWS, labels",
    "sws_features": "SWS, features only",
}
SIZES = {"depth": "6 × 192", "both": "6 × 128", "width": "12 × 128"}
TASKS = {"flowers12": "Flowers", "dtd10": "DTD"}


def rows(name: str) -> list[dict[str, str]]:
    with (EXPERIMENTS / "results" / name).open() as file:
        return list(csv.DictReader(file))


def percent(values: Mapping[int, float]) -> str:
    """Mean and half of the 95 % interval over the seeds, in percent."""
    summary = summarize([100 * values[seed] for seed in sorted(values)])
    return f"{summary.mean:.1f} ± {summary.half_width:.1f}"


def plain(values: Mapping[int, float]) -> str:
    """Mean and half of the 95 % interval over the seeds."""
    summary = summarize([values[seed] for seed in sorted(values)])
    return f"{summary.mean:.2f} ± {summary.half_width:.2f}"


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    align = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (head, align, *body)]


def deit_tiny() -> dict[tuple[str, str, str, str], dict[int, float]]:
    """(``knn_acc`` or ``acc``, task, size, start) -> seed -> share."""
    found: dict[tuple[str, str, str, str], dict[int, float]] = defaultdict(dict)
    for row in rows("deit_tiny.csv"):
        name = Path(row["run"]).parts[-2].removeprefix("untrained-")
        task, size, start = (*name.split("-"), "", "")[:3]
        if row["metric"] in ("knn_acc", "acc") and start:
            found[row["metric"], task, size, start][int(row["seed"])] = float(row["value"])
    return found


def test_descendants_of_deit_tiny() -> None:
    found, text = deit_tiny(), (EXPERIMENTS / "README.md").read_text()
    head = ["start", *(f"{task}, {size}" for task in TASKS.values() for size in SIZES.values())]
    for metric in ("knn_acc", "acc"):
        columns = [(metric, task, size) for task in TASKS for size in SIZES]
        body = [
            [name, *(percent(found[*column, start]) if (*column, start) in found else "–" for column in columns)]
            for start, name in STARTS.items()
        ]
        for line in markdown(head, body):
            assert line in text, line
    assert all(sorted(cell) == [0, 1, 2] for cell in found.values())
    assert len(found) == 2 * 2 * (3 * 6 + 1)


def test_starts_of_sws() -> None:
    found: dict[tuple[str, str, str, str], dict[int, float]] = defaultdict(dict)
    for row in rows("sws_starts.csv"):
        start, steps = Path(row["run"]).parts[-2].split("-")
        if steps == "200":
            found[start, row["metric"], row["split"], row["epochs"]][int(row["seed"])] = float(row["value"])
    names = {
        "random": "random (the paper)",
        "middle": "middle layer of each stage",
        "mean": "mean of the stage's layers",
    }
    cells = [("loss", "test", "0"), *(("loss", "train", epoch) for epoch in ("1", "4", "8")), ("loss", "test", "8")]
    body = [
        [
            name,
            *(plain(found[start, *cell]) for cell in cells),
            percent(found[start, "agreement", "test", "8"]),
        ]
        for start, name in names.items()
    ]
    head = ["start", "KL untrained", "loss, epoch 1", "4", "8", "KL after 200 steps", "agreement"]
    text = (EXPERIMENTS / "README.md").read_text()
    for line in markdown(head, body):
        assert line in text, line
