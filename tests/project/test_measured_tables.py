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
    "tleg": "TLEG",
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
    assert len(found) == 2 * 2 * (3 * 6 + 2)


def test_the_text_about_deit_tiny_follows_from_the_rows() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for task, name in TASKS.items():
        whole = {
            int(row["seed"]): float(row["value"])
            for row in rows("deit_tiny.csv")
            if f"/ancestor-{task}/" in row["run"] and (row["metric"], row["split"]) == ("acc", "test")
        }
        assert f"{percent(whole)} % on {name}" in text
    found = deit_tiny()
    columns = [("acc", task, size) for task in TASKS for size in SIZES]
    mean = {column: {start: sum(found[*column, start].values()) / 3 for start in STARTS if (*column, start) in found}
            for column in columns}  # fmt: skip
    gains = [
        100 * (mean[column][start] - mean[column]["random"])
        for column in columns
        for start in ("weight_selection", "sws", "sws_features")
    ]
    assert f"worth {min(gains):.0f} to {max(gains):.0f} points" in text
    assert f"{min(gains):.0f} to {max(gains):.0f} points above a random start" in (
        EXPERIMENTS.parent / "README.md"
    ).read_text().replace("\n", " ")
    assert sum(max(starts, key=lambda start: starts[start]) == "weight_subcloning" for starts in mean.values()) == 5
    for task in TASKS:
        for start in ("weight_selection", "weight_subcloning", "sws", "sws_features"):
            assert mean["acc", task, "depth"][start] > mean["acc", task, "width"][start]


def seconds(names: Sequence[str]) -> str:
    """Mean seconds of the runs called so, over all seeds."""
    found = [float(row["seconds"]) for row in rows("deit_tiny_seconds.csv") if row["run"] in names]
    assert len(found) == 3 * len(names), names
    return f"{sum(found) / len(found):.0f}"


def test_seconds_of_descendants_of_deit_tiny() -> None:
    body = []
    for start, name in STARTS.items():
        learned = {
            "sws": [f"{seconds(['sws-flowers12'])} + {seconds(['ancestor-flowers12'])}"],
            "tleg": [f"{seconds(['tleg-flowers12'])} + {seconds(['ancestor-flowers12'])}"],
            "sws_features": [seconds(["sws_features-flowers12"])],
        }.get(start, ["–"])
        sizes = ["depth"] if start in ("vanilla_lg", "tleg") else list(SIZES)
        tuned = [seconds([f"flowers12-{size}-{start}"]) if size in sizes else "–" for size in SIZES]
        body.append([name, *learned, *tuned])
    text = (EXPERIMENTS / "README.md").read_text()
    for line in markdown(["start", "learngene", *SIZES.values()], body):
        assert line in text, line


def differences(metric: str, better: str, baseline: str) -> list[str]:
    """Paired differences in points for each task and size that both have."""
    found = deit_tiny()
    cells = [(metric, task, size) for task in TASKS for size in SIZES if (metric, task, size, baseline) in found]
    return [
        f"{summary.mean:+.1f} ± {summary.half_width:.1f}"
        for cell in cells
        for summary in [summarize([100 * (found[*cell, better][s] - found[*cell, baseline][s]) for s in (0, 1, 2)])]
    ]


def test_differences_between_starts_of_deit_tiny() -> None:
    body = [
        [f"{STARTS[better]} − {STARTS[baseline]}", *differences("acc", better, baseline)]
        for better, baseline in (
            ("weight_selection", "random"), ("sws", "random"), ("sws_features", "random"), ("mimetic", "random"),
            ("weight_subcloning", "weight_selection"), ("sws", "weight_selection"),
            ("sws_features", "weight_selection"), ("sws_features", "sws"),
        )
    ]  # fmt: skip
    head = ["difference", *(f"{task}, {size}" for task in TASKS.values() for size in SIZES.values())]
    text = (EXPERIMENTS / "README.md").read_text()
    for line in markdown(head, body):
        assert line in text, line


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
    after = {
        Path(row["run"]).parts[-2]: f"{float(row['value']):.2f}"
        for row in rows("sws_starts.csv")
        if (row["metric"], row["split"], row["epochs"]) == ("loss", "test", "39")
    }
    assert f"is {after['random-1000']} from a random start and {after['middle-1000']} from the middle" in text
    for start in ("middle", "mean"):
        cell = "loss", "test", "8"
        gain = {seed: found["random", *cell][seed] - found[start, *cell][seed] for seed in (0, 1, 2)}
        assert plain(gain) in text
