"""Join the fronts of the families' runs, and compare each size with the trained ones.

``python -m experiments.family.fronts`` reads ``runs/family/<set>-family-<updates>/seed<seed>/front.csv`` of
``experiments/family/compare.yaml``, and writes ``experiments/results/family_fronts.csv``.
"""

import csv
from pathlib import Path

import numpy as np

TRAINED = ("12 192 4.0", "6 192 4.0", "6 128 4.0", "3 128 2.0")
"""Depth, width and MLP ratio of the trained sizes."""
OUT = Path("experiments/results/family_fronts.csv")


def compared(front: Path) -> list[list[object]]:
    """A row for each size that was not trained.

    Returns:
        Size, parameters and validation accuracy; points above the line, by parameters, between the trained sizes that
        are next in parameters: of the size itself, and of the best size with at most as many parameters.
    """
    with front.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    accuracy = {f"{row['depth']} {row['embed_dim']} {row['mlp_ratio']}": 100 * float(row["val_acc"]) for row in rows}
    parameters = {f"{row['depth']} {row['embed_dim']} {row['mlp_ratio']}": int(row["parameters"]) for row in rows}
    trained = sorted(TRAINED, key=parameters.__getitem__)
    line = [parameters[size] for size in trained], [accuracy[size] for size in trained]
    found: list[list[object]] = []
    for size, count in parameters.items():
        if size not in TRAINED and line[0][0] <= count <= line[0][-1]:
            expected = float(np.interp(count, *line))
            best = max(accuracy[other] for other in accuracy if parameters[other] <= count)
            gaps = accuracy[size] - expected, best - expected
            found.append([*size.split(), count, f"{accuracy[size]:.2f}", *(f"{gap:.2f}" for gap in gaps)])
    return found


def main() -> None:
    """Write the table."""
    with OUT.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        heads = ["depth", "embed_dim", "mlp_ratio", "parameters", "accuracy", "size_above_line", "best_above_line"]
        writer.writerow(["task", "updates", "seed", *heads])
        for front in sorted(Path("runs/family").glob("*-family-*/seed*/front.csv")):
            task, _, updates = front.parts[-3].split("-")
            for row in compared(front):
                writer.writerow([task, updates, front.parts[-2].removeprefix("seed"), *row])


if __name__ == "__main__":
    main()
