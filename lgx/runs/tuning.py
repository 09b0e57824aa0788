"""Tuning files: the options of a run that are tuned, and the score of a trial."""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from lgx.core.names import check_name
from lgx.core.rows import read_rows
from lgx.core.seed import check_seed
from lgx.errors import UserError
from lgx.runs.sweeps import RunSpec, in_one_line, read_mapping

_KEYS = {"experiment", "config", "metric", "direction", "trials", "space"}
_OPTIONAL = {"seed", "options"}
_FIXED = {
    "config", "runs_dir", "experiment", "name", "seed_everything", "ckpt_path", "overwrite", "test_start", "test_end",
}  # fmt: skip


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included.

    Attributes:
        low: Lower bound.
        high: Upper bound.
        log: Draw on a logarithmic scale.
        step: Distance between two values; None for a continuous range, or for 1 if both bounds are whole numbers.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None


@dataclass(frozen=True)
class Tuning:
    """A tuning study of the options of a run.

    Attributes:
        experiment: Folder below ``runs_dir``.
        runs_dir: Folder of all runs.
        config: Configuration file of every trial.
        metric: Name of a metric in ``results.csv``, e.g. ``acc``, measured on the validation split.
        direction: Whether a greater or a smaller metric is better.
        trials: Number of trials, including those that fail.
        seed: Seed of every trial, and of the sampler.
        space: Option -> its range or choices.
        options: Options of all trials.
        stated: The values that identify the study: key -> text. A study continues only with equal values.
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

    def trial(self, number: int, drawn: Mapping[str, Any]) -> RunSpec:
        """The run of a trial, which does not read the test split.

        Args:
            number: Number of the trial, from 0 on.
            drawn: Option -> value that the sampler drew.
        """
        name = f"trial{number}"
        folder = str(Path(self.runs_dir) / self.experiment / name / f"seed{self.seed}")
        options = {**self.options, **drawn, "test_start": False, "test_end": False}
        return RunSpec(name, self.seed, folder, "fit", self.config, options)


def load_tuning(file: str | Path, runs_dir: str = "runs") -> Tuning:
    """Read a tuning file.

    Args:
        file: YAML with ``experiment``, ``config``, ``metric``, ``direction``, ``trials``, ``space``, and optionally
            ``seed`` and ``options``.
        runs_dir: Folder of all runs.

    Raises:
        UserError: If the file is missing or malformed; the message names the key.
    """
    file = Path(file)
    content = read_mapping(file, f"a file with {', '.join(sorted(_KEYS))}")
    _check(file, content)
    space, options, seed = content["space"], content.get("options") or {}, content.get("seed", 0)
    shared = {key: content[key] for key in ("config", "metric", "direction", "space")}
    written = hashlib.sha256((file.parent / content["config"]).read_bytes()).hexdigest()
    shared["content of the configuration"] = written
    return Tuning(
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
    """Raise a UserError if a tuning file is malformed; the values of its space are checked later."""
    if missing := _KEYS - set(content):
        needed = ", ".join(sorted(_KEYS))
        raise UserError(f"{file}: {', '.join(sorted(missing))} is missing; a tuning file must have {needed}")
    if unknown := set(content) - _KEYS - _OPTIONAL:
        known = ", ".join(sorted(_KEYS | _OPTIONAL))
        raise UserError(f"{file}: unknown key {', '.join(sorted(map(str, unknown)))}; the keys are {known}")
    for key in ("experiment", "config", "metric"):
        if not isinstance(content[key], str) or not content[key]:
            raise UserError(f"{file}: {key} must be a text, got {content[key]}")
    if not (file.parent / content["config"]).is_file():
        raise UserError(
            f"{file}: config: {file.parent / content['config']} does not exist; give a path relative to this file"
        )
    if not re.fullmatch(r"val/[^/]+", content["metric"]):
        raise UserError(
            f"{file}: metric must be val/ followed by a metric of results.csv, e.g. val/acc, got {content['metric']}"
        )
    if content["direction"] not in ("maximize", "minimize"):
        raise UserError(f"{file}: direction must be maximize or minimize, got {content['direction']}")
    check_name(content["experiment"], f"{file}: experiment")
    for key, least in (("trials", 1), ("seed", 0)):
        if type(number := content.get(key, 0)) is not int or number < least:
            raise UserError(f"{file}: {key} must be a whole number of at least {least}, got {number}")
    check_seed(content.get("seed", 0), f"{file}: seed")
    options, space = content.get("options") or {}, content["space"]
    if not isinstance(options, dict):
        raise UserError(f"{file}: options must be a mapping from option to value, got {options}")
    if not isinstance(space, dict) or not space:
        raise UserError(f"{file}: space must be a mapping from option to a range or a list of choices, got {space}")
    if fixed := _FIXED & {*space, *options}:
        raise UserError(f"{file}: {', '.join(sorted(fixed))} is set by lgx tune itself; remove it")
    if both := set(space) & set(options):
        raise UserError(f"{file}: {', '.join(sorted(both))} is in space and in options; remove it from one of them")


def score(folder: str | Path, tuning: Tuning) -> float:
    """The score of a trial: the metric on the validation split in the best epoch, as mean over tasks and architectures.

    Args:
        folder: The trial's run folder.
        tuning: The tuning study.

    Raises:
        UserError: If the run has not measured the metric, or the metric is not finite in any epoch.
    """
    epochs = defaultdict(list)
    rows = [row for row in read_rows(Path(folder) / "results.csv") if row.split == "val"]
    for row in rows:
        if row.metric == tuning.metric:
            epochs[row.epochs].append(row.value)
    if not epochs:
        known = ", ".join(sorted({f"val/{row.metric}" for row in rows})) or "no metric of the validation split"
        raise UserError(f"metric: {folder}/results.csv has no val/{tuning.metric}; it has {known}")
    means = [value for value in map(mean, epochs.values()) if math.isfinite(value)]
    if not means:
        raise UserError(f"{folder}: val/{tuning.metric} is not finite in any epoch")
    return max(means) if tuning.direction == "maximize" else min(means)


def _dimension(where: str, value: Any) -> Range | tuple[Any, ...]:
    """The range or choices of an option; choices that are lists or mappings become command-line text."""
    if isinstance(value, list) and value:
        return tuple(in_one_line(choice) if isinstance(choice, list | dict) else choice for choice in value)
    if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= {"low", "high", "log", "step"}:
        raise UserError(f"{where}: give low and high, and optionally log or step, or a list of choices; got {value}")
    low, high = _number(f"{where}.low", value["low"]), _number(f"{where}.high", value["high"])
    log, step = value.get("log", False), value.get("step")
    if low >= high:
        raise UserError(f"{where}: low must be below high, got {low} and {high}")
    if not isinstance(log, bool):
        raise UserError(f"{where}.log: must be true or false, got {log}")
    if log and step is not None:
        raise UserError(f"{where}: log and step cannot be combined; remove one of them")
    if log and low <= 0:
        raise UserError(f"{where}.low: must be above 0 on a logarithmic scale, got {low}")
    if step is not None and (step := _number(f"{where}.step", step)) <= 0:
        raise UserError(f"{where}.step: must be above 0, got {step}")
    return Range(low, high, log, step)


def _number(where: str, value: Any) -> float:
    """The value as a number; whole numbers stay int. YAML reads 1e-4, which has no decimal point, as text."""
    try:
        if isinstance(value, bool) or not math.isfinite(number := float(value)):
            raise ValueError
    except (TypeError, ValueError):
        raise UserError(f"{where}: must be a number, got {value}") from None
    return value if isinstance(value, int) else number
