"""Rows, and runs on disk."""

from collections.abc import Sequence
from pathlib import Path

from lgx.core.rows import Row, write_rows

SPEC = "depth={},embed_dim=64,num_heads=4,img_size=32"
GAINS = {"sws": 0.3, "simple_lg": 0.2, "random": 0.0}
DEPTHS, SEEDS = (4, 6, 8), (0, 1, 2)


def accuracy(method: str, depth: int, seed: int, epochs: int) -> float:
    return round(0.1 + GAINS.get(method, 0.1) * depth / 10 + 0.01 * seed + (0.3 if epochs else 0), 4)


def row(method: str = "sws", architecture: str = "6-Small", value: float = 0.5, **changes: object) -> Row:
    given = {"task": "pocket", "split": "test", "epochs": 0, "metric": "acc", "seed": 0, "n": 500, "run": "runs/a"}
    return Row(method=method, architecture=architecture, value=value, **{**given, **changes})  # type: ignore[arg-type]


def seeds(method: str, values: Sequence[float], epochs: int = 0, **changes: object) -> list[Row]:
    """A row for each seed."""
    given = {"task": "shapes", "n": 9, "run": method, "epochs": epochs, **changes}
    return [row(method, value=value, seed=seed, **given) for seed, value in enumerate(values)]  # type: ignore[arg-type]


def add_run(folder: Path, method: str, depth: int, seed: int, curves: bool = False, architecture: str = SPEC) -> None:
    folder.mkdir(parents=True)
    same = {"architecture": architecture.format(depth), "seed": seed, "run": str(folder)}
    rows = [row(method, value=accuracy(method, depth, seed, epochs), epochs=epochs, **same) for epochs in (0, 5)]
    for epoch in range(1, 6) if curves else ():
        for split, start in (("train", 2.0), ("val", 3.0)):
            rows.append(row(method, value=start / epoch + seed, epochs=epoch, split=split, metric="loss", **same))
    write_rows(folder / "results.csv", rows)
