"""Search files: which options of a run are searched, and what a trial scores."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from lgx.core.rows import read_rows
from lgx.errors import UserError
from lgx.runs.sweeps import RunSpec, Sweep, in_one_line, read_mapping

_KEYS = {"experiment", "config", "metric", "direction", "trials", "space"}
_OPTIONAL = {"seed", "options"}
_FIXED = {
    "config", "runs_dir", "experiment", "name", "seed_everything", "ckpt_path", "overwrite", "test_start", "test_end",
}  # fmt: skip


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included.

    Attributes:
        low: Least.
        high: Greatest.
        log: Draw the logarithm evenly.
        step: Distance between neighbors; None for any number between (of whole numbers, 1).
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None


@dataclass(frozen=True)
class Search:
    """A search for the best options of a run.

    Attributes:
        experiment: Folder below ``runs_dir``.
        runs_dir: Folder of all runs.
        config: Configuration file of every trial.
        metric: Name of a metric in ``results.csv``, e.g. ``acc``; measured on the validation split.
        direction: Which end of the metric is better.
        trials: Number of trials, failed ones included.
        seed: Seed of every trial, and of the draws.
        space: Option -> its range or choices.
        options: Options of all trials.
        stated: What makes it this search and no other: key -> text.
    """

    experiment: str
    runs_dir: str
    config: str
    metric: str
    direction: Literal["maximize", "minimize"]
    trials: int
    seed: int
    space: dict[str, Range | tuple[Any, ...]]
    options: dict[str, Any]
    stated: dict[str, str]

    @property
    def sweep(self) -> Sweep:
        """Where trials lie."""
        return Sweep(self.experiment, self.runs_dir, ())

    def job(self, number: int, drawn: Mapping[str, Any]) -> RunSpec:
        """The run of a trial; the test split stays closed."""
        name = f"trial{number}"
        folder = str(Path(self.runs_dir) / self.experiment / name / f"seed{self.seed}")
        options = {**self.options, **drawn, "test_start": False, "test_end": False}
        return RunSpec(name, self.seed, folder, "fit", self.config, options)


def load_search(file: str | Path, runs_dir: str = "runs") -> Search:
    """Read a search file.

    Args:
        file: YAML with ``experiment``, ``config``, ``metric``, ``direction``, ``trials``, ``space``, and perhaps
            ``seed`` and ``options``.
        runs_dir: Folder of all runs.

    Raises:
        UserError: If the file is missing or malformed; the sentence names the key.
    """
    file = Path(file)
    content = read_mapping(file, f"a file with {', '.join(sorted(_KEYS))}")
    _check(file, content)
    space, options, seed = content["space"], content.get("options") or {}, content.get("seed", 0)
    shared = {key: content[key] for key in ("config", "metric", "direction", "space")}
    return Search(
        experiment=content["experiment"],
        runs_dir=runs_dir,
        config=str(file.parent / content["config"]),
        metric=content["metric"].removeprefix("val/"),
        direction=content["direction"],
        trials=content["trials"],
        seed=seed,
        space={str(option): _dimension(f"{file}: space.{option}", value) for option, value in space.items()},
        options=options,
        stated={key: in_one_line(value) for key, value in {**shared, "options": options, "seed": seed}.items()},
    )


def _check(file: Path, content: dict[str, Any]) -> None:
    """Refuse a malformed search file; what stands in its space is checked later."""
    if missing := _KEYS - set(content):
        raise UserError(f"{file}: {', '.join(sorted(missing))} is missing; a search has {', '.join(sorted(_KEYS))}")
    if unknown := set(content) - _KEYS - _OPTIONAL:
        known = ", ".join(sorted(_KEYS | _OPTIONAL))
        raise UserError(f"{file}: {', '.join(sorted(map(str, unknown)))} is unknown; a search has {known}")
    for key in ("experiment", "config", "metric"):
        if not isinstance(content[key], str) or not content[key]:
            raise UserError(f"{file}: {key} must be a text, got {content[key]}")
    if not (file.parent / content["config"]).is_file():
        raise UserError(
            f"{file}: config: {file.parent / content['config']} does not exist; it is sought beside this file"
        )
    if not re.fullmatch(r"val/[^/]+", content["metric"]):
        raise UserError(
            f"{file}: metric must be val/ and a metric of results.csv, e.g. val/acc, got {content['metric']}"
        )
    if content["direction"] not in ("maximize", "minimize"):
        raise UserError(f"{file}: direction must be maximize or minimize, got {content['direction']}")
    for key, least in (("trials", 1), ("seed", 0)):
        if type(number := content.get(key, 0)) is not int or number < least:
            raise UserError(f"{file}: {key} must be a whole number from {least} on, got {number}")
    options, space = content.get("options") or {}, content["space"]
    if not isinstance(options, dict):
        raise UserError(f"{file}: options must be a mapping from option to value, got {options}")
    if not isinstance(space, dict) or not space:
        raise UserError(f"{file}: space must be a mapping from option to a range or a list of choices, got {space}")
    if fixed := _FIXED & {*space, *options}:
        raise UserError(f"{file}: {', '.join(sorted(fixed))} is set by the search itself; remove it")
    if both := set(space) & set(options):
        raise UserError(f"{file}: {', '.join(sorted(both))} stands in space and in options; choose one")


def score(folder: str | Path, search: Search) -> float:
    """What a trial has reached: the best epoch's mean over tasks and architectures, on the validation split.

    Args:
        folder: The trial's run folder.
        search: The search.

    Raises:
        UserError: If the run has not measured the metric, or it is no number.
    """
    epochs = defaultdict(list)
    rows = [row for row in read_rows(Path(folder) / "results.csv") if row.split == "val"]
    for row in rows:
        if row.metric == search.metric:
            epochs[row.epochs].append(row.value)
    if not epochs:
        known = ", ".join(sorted({f"val/{row.metric}" for row in rows})) or "nothing of the validation split"
        raise UserError(f"metric: {folder}/results.csv has no val/{search.metric}; it has {known}")
    means = [value for value in map(mean, epochs.values()) if math.isfinite(value)]
    if not means:
        raise UserError(f"{folder}: val/{search.metric} is not finite in any epoch")
    return max(means) if search.direction == "maximize" else min(means)


def _dimension(where: str, value: Any) -> Range | tuple[Any, ...]:
    """A range or choices; choices that are lists or mappings as the text that the command line reads."""
    if isinstance(value, list) and value:
        return tuple(in_one_line(choice) if isinstance(choice, list | dict) else choice for choice in value)
    if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= {"low", "high", "log", "step"}:
        raise UserError(f"{where}: give low and high, perhaps log or step, or a list of choices; got {value}")
    low, high = _number(f"{where}.low", value["low"]), _number(f"{where}.high", value["high"])
    log, step = value.get("log", False), value.get("step")
    if low >= high:
        raise UserError(f"{where}: low must be below high, got {low} and {high}")
    if not isinstance(log, bool):
        raise UserError(f"{where}.log: must be true or false, got {log}")
    if log and step is not None:
        raise UserError(f"{where}: log and step exclude each other")
    if log and low <= 0:
        raise UserError(f"{where}.low: must be above 0 on a logarithmic scale, got {low}")
    if step is not None and (step := _number(f"{where}.step", step)) <= 0:
        raise UserError(f"{where}.step: must be above 0, got {step}")
    return Range(low, high, log, step)


def _number(where: str, value: Any) -> float:
    """A whole number stays one. YAML reads 1e-4, which has no point, as a text."""
    try:
        if isinstance(value, bool) or not math.isfinite(number := float(value)):
            raise ValueError
    except (TypeError, ValueError):
        raise UserError(f"{where}: must be a number, got {value}") from None
    return value if isinstance(value, int) else number
