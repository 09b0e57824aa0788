"""Sweep files: what runs they mean, and which of them are still to do."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lgx.errors import UserError
from lgx.evaluation.results import read_rows

_RUN_KEYS = {"name", "command", "config", "options", "matrix"}


@dataclass(frozen=True)
class Job:
    """One run of a sweep.

    Attributes:
        name: Name of the run, e.g. ``sws-8``.
        seed: Its seed.
        folder: Where it lies: ``<runs_dir>/<experiment>/<name>/seed<k>``.
        command: ``fit``, or ``test`` for starts that are only evaluated.
        config: Its configuration file.
        options: Options that win over the file.
    """

    name: str
    seed: int
    folder: str
    command: str
    config: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """All runs of a sweep file, in order.

    Attributes:
        experiment: Folder below ``runs_dir``.
        runs_dir: Folder of all runs.
        runs: The runs, seed by seed, so that a stopped sweep leaves whole seeds behind.
    """

    experiment: str
    runs_dir: str
    runs: tuple[Job, ...]


def load_sweep(file: str | Path, runs_dir: str = "runs") -> Sweep:
    """Read a sweep file and expand its matrices.

    In texts ``{seed}``, the matrix's variables, and ``{runs}`` (the experiment's folder) are filled in. A matrix
    variable is a list of values, or a mapping from a value to the options that come with it.

    Args:
        file: YAML with ``experiment``, ``seeds`` and ``runs``.
        runs_dir: Folder of all runs.

    Raises:
        UserError: If the file is missing or malformed; the sentence names the key.
    """
    file = Path(file)
    try:
        content = yaml.safe_load(file.read_text())
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; give a sweep file such as experiments/sws/demo.yaml") from error
    except yaml.YAMLError as error:
        raise UserError(f"{file}: not valid YAML ({' '.join(str(error).split())})") from error
    if not isinstance(content, dict) or set(content) != {"experiment", "seeds", "runs"}:
        raise UserError(f"{file}: a sweep has the keys experiment, seeds and runs, nothing else")
    experiment = str(content["experiment"])
    seeds, runs = content["seeds"], content["runs"]
    if not isinstance(seeds, list) or not all(isinstance(seed, int) for seed in seeds):
        raise UserError(f"{file}: seeds must be a list of numbers, got {seeds}")
    if not isinstance(runs, list) or not all(isinstance(entry, dict) for entry in runs):
        raise UserError(f"{file}: runs must be a list of mappings with name and config")
    jobs = []
    for seed in seeds:
        for entry in runs:
            unknown = set(entry) - _RUN_KEYS
            if unknown or not {"name", "config"} <= set(entry):
                raise UserError(
                    f"{file}: a run has name, config, and perhaps command, options and matrix; "
                    f"got {', '.join(sorted(entry))}"
                )
            command = str(entry.get("command", "fit"))
            if command not in ("fit", "test"):
                raise UserError(f"{file}: run {entry['name']}: command must be fit or test, got {command}")
            matrix = entry.get("matrix") or {}
            if not isinstance(matrix, dict) or not all(isinstance(v, list | dict) for v in matrix.values()):
                raise UserError(f"{file}: run {entry['name']}: every variable of a matrix needs a list or a mapping")
            if not isinstance(entry.get("options") or {}, dict):
                raise UserError(f"{file}: run {entry['name']}: options must be a mapping from option to value")
            for values, extra in _combinations(matrix):
                fill = {**values, "seed": seed, "runs": str(Path(runs_dir) / experiment)}
                options = {**(entry.get("options") or {}), **extra}
                try:
                    name = str(entry["name"]).format(**fill)
                    filled = {k: v.format(**fill) if isinstance(v, str) else v for k, v in options.items()}
                except (KeyError, IndexError, ValueError) as error:
                    raise UserError(f"{file}: run {entry['name']}: unknown variable {error}") from error
                folder = str(Path(runs_dir) / experiment / name / f"seed{seed}")
                jobs.append(Job(name, int(seed), folder, command, str(file.parent / entry["config"]), filled))
    twice = [folder for folder, count in Counter(job.folder for job in jobs).items() if count > 1]
    if twice:
        raise UserError(f"{file}: several runs would lie in {twice[0]}; give them different names")
    return Sweep(experiment, runs_dir, tuple(jobs))


def _combinations(matrix: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every combination of the variables' values, with the options that come with them."""
    for combination in itertools.product(*matrix.values()):
        values = dict(zip(matrix, combination, strict=True))
        options: dict[str, Any] = {}
        for variable, value in values.items():
            if isinstance(matrix[variable], dict):
                options |= matrix[variable][value] or {}
        yield values, options


def pending_runs(sweep: Sweep, results: Path) -> list[Job]:
    """The runs that have no test rows yet, and finished ones whose files a pending run needs but which are gone.

    Args:
        sweep: The sweep.
        results: CSV file that collects the test rows.
    """
    measured = {Path(row.run).resolve() for row in read_rows(results)} if results.is_file() else set()
    pending = {job.folder for job in sweep.runs if Path(job.folder).resolve() not in measured}
    # Runs come after those they need, so one pass backwards finds chains as well.
    for job in reversed(sweep.runs):
        if job.folder in pending:
            texts = [v for v in job.options.values() if isinstance(v, str)]
            needed = [other for other in sweep.runs if any(t.startswith(f"{other.folder}/") for t in texts)]
            missing = {t for t in texts if any(t.startswith(f"{n.folder}/") for n in needed) and not Path(t).exists()}
            pending |= {n.folder for n in needed if any(t.startswith(f"{n.folder}/") for t in missing)}
    return [job for job in sweep.runs if job.folder in pending]


def run_arguments(sweep: Sweep, job: Job) -> list[str]:
    """The command line of a run; a ``fit`` resumes what a stopped sweep began, a ``test`` is of the untrained start."""
    texts = {key: value if isinstance(value, str) else _in_one_line(value) for key, value in job.options.items()}
    options = [f"--{key}={text}" for key, text in texts.items()]
    place = ["--runs_dir", sweep.runs_dir, "--experiment", sweep.experiment, "--name", job.name]
    seed = ["--seed_everything", str(job.seed)]
    how = ["--ckpt_path", "last"] if job.command == "fit" else ["--untrained", "true"]
    return [job.command, "--config", job.config, *place, *seed, *how, *options]


def _in_one_line(value: Any) -> str:
    """YAML, which unlike JSON has words for infinity that the command line reads."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=math.inf)
    return text.removesuffix("...\n").strip()
