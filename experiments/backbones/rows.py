"""Collect the measured sizes of the comparison's runs: ``python -m experiments.backbones.rows``."""

import json
from pathlib import Path

import pandas


def main() -> None:
    """Write ``experiments/results/<experiment>.csv`` from ``<training>[-<size>]/seed<seed>/front.csv`` of its runs."""
    for experiment in ("backbones", "backbones_images"):
        fronts = []
        for file in sorted(Path("runs", experiment).glob("*/seed*/front.csv")):
            front = pandas.read_csv(file).drop(columns=["network", "best"])
            front.insert(0, "training", file.parts[-3].partition("-")[0])
            front.insert(1, "seed", int(file.parts[-2].removeprefix("seed")))
            front.insert(2, "steps", json.loads(file.with_name("summary.json").read_text())["steps"])
            fronts.append(front)
        pandas.concat(fronts).round(4).to_csv(f"experiments/results/{experiment}.csv", index=False)


if __name__ == "__main__":
    main()
