"""What the papers say about costs, beside the floating-point operations that plans of the same trainings give.

``python -m experiments.reproduce.costs`` plans all trainings anew and writes ``experiments/costs.csv``.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from experiments.reproduce.hours import costly_options
from lgx.host.files import atomic_path
from lgx.planning import make_plan
from lgx.results.report import EMPTY_CELL, piped

FILE, PLANNED = Path("experiments/costs.yaml"), Path("experiments/costs.csv")
_COLUMNS = ("part", "exaflops", "of_ancestor", "epochs")


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of a training at paper scale.

    Attributes:
        exaflops: All of them, in 10^18.
        of_ancestor: Those of the ancestor, which sees every image in every epoch.
        epochs: Epochs.
    """

    exaflops: float
    of_ancestor: float
    epochs: int

    @property
    def kept(self) -> float:
        """All of them, if the ancestor's answers were kept: it would see every image once. Augmentation forbids it."""
        return self.exaflops - self.of_ancestor * (1 - 1 / self.epochs)


def planned_cost(part: Mapping[str, Any]) -> Cost:
    """Plan the trainings of a part.

    Args:
        part: ``config``, below ``experiments``; ``options`` of all runs, and ``each``: option -> values.
    """
    values = [[(key, value) for value in many] for key, many in part.get("each", {}).items()]
    exaflops = of_ancestor = epochs = 0.0
    for chosen in product(*values):
        config = f"experiments/{part['config']}"
        options = costly_options(config, part.get("options", {}) | dict(chosen))
        plan = make_plan(["--config", config, *options, "--gpus=1"])
        exaflops += plan.total_flops / 1e18
        of_ancestor += (plan.flops.teacher or 0.0) * plan.steps.samples / 1e18
        epochs = plan.steps.epochs
    return Cost(exaflops, of_ancestor, round(epochs))


def read_costs() -> dict[str, Cost]:
    """The committed costs by part."""
    with PLANNED.open(encoding="utf-8") as file:
        return {
            line["part"]: Cost(float(line["exaflops"]), float(line["of_ancestor"]), int(line["epochs"]))
            for line in csv.DictReader(file)
        }


def costs_as_markdown(paper: str | None = None) -> str:
    """A table of the papers' claims about costs, or of those of one paper, and one of the hours that TAL's print."""
    content, costs = yaml.safe_load(FILE.read_text(encoding="utf-8")), read_costs()
    head = ("paper", "claim", "as the paper counts", "factor in FLOPs", "ancestor's answers kept", "verdict")
    lines = [
        head,
        ("---", "---", "---:", "---:", "---:", "---"),
        *(_line(claim, costs) for claim in content["claims"] if paper in (None, claim["paper"])),
    ]
    if paper not in (None, "tal"):
        return piped(lines)
    hours = content["hours"]
    speed = hours["tflops"] * hours["mfu"] * 3600 / 1e6
    timed: list[tuple[str, ...]] = [("hours that TAL and its rebuttal print", "printed", "computed", head[4])]
    timed.append(("---", "---:", "---:", "---:"))
    for name, (printed, parts) in content["hours"]["printed"].items():
        computed = (_sum(parts, costs, field) / speed for field in ("exaflops", "kept"))
        timed.append((name, f"{printed:.2f}", *(f"{number:.2f}" for number in computed)))
    words = (
        f"Computed: the matrix products of training, in three passes, without validation and task embeddings, at "
        f"{hours['mfu']:.0%} of an RTX 4090's {hours['tflops']} TFLOP/s. Hypernetworks reach less of it."
    )
    return f"{piped(lines)}\n\n{piped(timed)}\n\n{words}"


def _line(claim: Mapping[str, Any], costs: Mapping[str, Cost]) -> tuple[str, ...]:
    numbers = claim.get("numbers")
    counted = f"{claim['counts']}: {numbers[0]:g} / {numbers[1]:g} = {numbers[0] / numbers[1]:.3g}x" if numbers else ""
    factors = [
        _sum(claim["more"], costs, field) / _sum(claim["less"], costs, field) if "more" in claim else None
        for field in ("exaflops", "kept")
    ]
    shown = (EMPTY_CELL if factor is None else f"{factor:.3g}x" for factor in factors)
    verdict = claim.get("verdict") or _verdict(claim.get("factor"), factors[0])
    return claim["paper"], claim["says"], counted or claim["counts"], *shown, verdict


def _verdict(printed: float | None, factor: float | None) -> str:
    if factor is None:
        return "not measured" if printed is None else "computed"
    if factor <= 1:
        return "**reversed**"
    return "**holds**" if factor >= 0.95 * (printed or 1) else "**holds (smaller)**"


def _sum(parts: Mapping[str, float], costs: Mapping[str, Cost], field: str) -> float:
    return sum(count * float(getattr(costs[part], field)) for part, count in parts.items())


def main() -> None:
    """Plan all parts anew."""
    parts = yaml.safe_load(FILE.read_text(encoding="utf-8"))["parts"]
    with atomic_path(PLANNED) as path, path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(_COLUMNS)
        for name, part in parts.items():
            cost = planned_cost(part)
            lines.writerow([name, f"{cost.exaflops:.4g}", f"{cost.of_ancestor:.4g}", cost.epochs])
            print(name, cost, flush=True)


if __name__ == "__main__":
    main()
