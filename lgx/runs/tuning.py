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
from lgx.core.schema import LINE, MAPPING, Field, at_most, check_fields, one_of
from lgx.core.seed import LARGEST_SEED
from lgx.errors import UserError
from lgx.runs.sweeps import RunSpec, in_one_line, read_mapping

_FIELDS = {
    "experiment": LINE,
    "config": LINE,
    "metric": Field(
        lambda value: isinstance(value, str) and re.fullmatch(r"val/[^/]+", value) is not None,
        "val/ followed by a metric of results.csv, e.g. val/acc",
    ),
    "direction": one_of("maximize", "minimize"),
    "trials": at_most(1_000_000, least=1),
    "space": Field(
        lambda value: isinstance(value, dict) and len(value) > 0,
        "a mapping from option to a list of choices, or to low and high and optionally log or step",
    ),
}
_OPTIONAL = {"seed": at_most(LARGEST_SEED), "options": MAPPING}
_FIXED = {
    "config", "runs_dir", "experiment", "name", "seed_everything", "ckpt_path", "overwrite", "test_start", "test_end",
}  # fmt: skip


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
        space: Option -> its choices, or low, high, and perhaps log or step; optuna checks them.
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
    space: dict[str, Any]
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
    content = read_mapping(file, f"a file with {', '.join(_FIELDS)}")
    place = str(file)
    if unknown := set(content) - set(_FIELDS) - set(_OPTIONAL):
        known = ", ".join([*_FIELDS, *_OPTIONAL])
        raise UserError(f"{place}: unknown key {', '.join(sorted(map(str, unknown)))}; the keys are {known}")
    check_fields(content, _FIELDS, place, complete=True)
    check_fields(content, _OPTIONAL, place)
    check_name(content["experiment"], f"{place}: experiment")
    config = file.parent / content["config"]
    if not config.is_file():
        raise UserError(f"{place}: config: {config} does not exist; give a path relative to this file")
    space, options, seed = content["space"], content.get("options", {}), content.get("seed", 0)
    if fixed := _FIXED & {*space, *options}:
        raise UserError(f"{place}: {', '.join(sorted(fixed))} is set by lgx tune itself; remove it")
    if both := set(space) & set(options):
        raise UserError(f"{place}: {', '.join(sorted(both))} is in space and in options; remove it from one of them")
    stated = {key: content[key] for key in ("config", "metric", "direction", "space")}
    stated["content of the configuration"] = hashlib.sha256(config.read_bytes()).hexdigest()
    return Tuning(
        experiment=content["experiment"],
        runs_dir=runs_dir,
        config=str(config),
        metric=content["metric"].removeprefix("val/"),
        direction=content["direction"],
        trials=content["trials"],
        seed=seed,
        space={str(option): values for option, values in space.items()},
        options=options,
        stated={key: in_one_line(value) for key, value in {**stated, "options": options, "seed": seed}.items()},
    )


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
