"""Sweep files: the runs that they describe, the runs that each run needs, and the runs that are still to do."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from lgx.core.names import check_label, check_name
from lgx.core.rows import read_rows
from lgx.core.schema import LINE, MAPPING, Field, all_values, check_fields, mapping_of, one_of, shortened
from lgx.core.seed import check_seed
from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.runs.starts import Cell, Starts, read_starts

_VARIABLE = Field(
    lambda value: (
        isinstance(value, list)
        or (isinstance(value, dict) and all(isinstance(options or {}, dict) for options in value.values()))
    ),
    "a list of values, or a mapping from every value to a mapping from option to value",
)
_RUN = {
    "name": LINE,
    "command": one_of("fit", "test"),
    "config": LINE,
    "options": MAPPING,
    "matrix": mapping_of(_VARIABLE),
}
"""Valid values of a run's keys."""


@dataclass(frozen=True)
class RunSpec:
    """One run of a sweep.

    Attributes:
        name: Name of the run, e.g. ``sws-8``.
        seed: Its seed.
        folder: Its folder, ``<runs_dir>/<experiment>/<name>/seed<k>``.
        command: ``fit``, or ``test`` for a start that is only evaluated.
        config: Its configuration file.
        options: Options that override the file.
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
        runs: The runs, ordered by seed, so that a stopped sweep has finished whole seeds.
        starts: The starts of descendants that the file compares; None in a file without starts.
    """

    experiment: str
    runs_dir: str
    runs: tuple[RunSpec, ...]
    starts: Starts | None = None


def load_sweep(file: str | Path, runs_dir: str = "runs", longer: Mapping[Cell, int] | None = None) -> Sweep:
    """Read a sweep file and expand its matrices.

    ``{seed}``, ``{runs}`` (the experiment's folder), ``{ancestor}`` and the variables of the matrix are replaced in
    names and options. A matrix variable is a list of values, or a mapping from a value to the options that belong to
    it. A file with ``starts`` describes runs by tasks, sizes and starts, see :class:`~lgx.runs.starts.Starts`.

    Args:
        file: The file.
        runs_dir: Folder of all runs.
        longer: Of a file with starts, further trainings, each with its number of epochs.
    """
    file = Path(file)
    content = check_fields(read_yaml(file, "give a sweep file such as experiments/sws/demo.yaml"), {}, str(file))
    if "starts" not in content:
        return _expand_sweep(file, content, runs_dir)
    starts = read_starts(file, content)
    return replace(_expand_sweep(file, starts.sweep(longer), runs_dir), starts=starts)


def _expand_sweep(file: Path, content: Mapping[str, Any], runs_dir: str) -> Sweep:
    """Expand the matrices of a sweep file's content.

    Args:
        file: The file, for messages; paths of configuration files are relative to its folder.
        content: ``experiment``, ``seeds`` and ``runs``, and optionally ``ancestor``.
        runs_dir: Folder of all runs.
    """
    if set(content) - {"ancestor"} != {"experiment", "seeds", "runs"}:
        raise UserError(f"{file}: a sweep file must have exactly the keys experiment, seeds and runs")
    seeds, entries = content["seeds"], content["runs"]
    if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
        raise UserError(f"{file}: seeds must be a list of whole numbers, got {shortened(seeds)}")
    for seed in seeds:
        check_seed(seed, f"{file}: seeds")
    check_fields(content, {"experiment": LINE}, str(file))  # YAML reads on and 1e3 as something else
    check_name(content["experiment"], f"{file}: experiment")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(f"{file}: runs must be a list of mappings with name and config")
    for entry in entries:
        _check_entry(file, entry)
    parent = Path(runs_dir) / content["experiment"]
    ancestor = str(content.get("ancestor", ""))
    specs = tuple(spec for seed in seeds for entry in entries for spec in _expand(file, entry, seed, parent, ancestor))
    repeated = [folder for folder, count in Counter(spec.folder for spec in specs).items() if count > 1]
    if repeated:
        raise UserError(f"{file}: several runs have the folder {repeated[0][:200]}; give them different names")
    sweep = Sweep(content["experiment"], runs_dir, specs)
    try:
        TopologicalSorter(needed_runs(sweep)).prepare()
    except CycleError as error:
        raise UserError(f"{file}: these runs depend on each other in a cycle: {', '.join(error.args[1])}") from error
    return sweep


def _check_entry(file: Path, entry: Mapping[str, Any]) -> None:
    """Raise a UserError if an entry of ``runs`` is malformed."""
    if not {"name", "config"} <= set(entry) <= set(_RUN):
        raise UserError(
            f"{file}: a run must have name and config, and may have command, options and matrix; "
            f"got {', '.join(sorted(map(str, entry)))[:200]}"
        )
    values = {key: value for key, value in entry.items() if value is not None or key == "config"}
    check_fields(values, _RUN, f"{file}: run {shortened(entry['name'])}")


def _expand(file: Path, entry: Mapping[str, Any], seed: int, parent: Path, ancestor: str) -> Iterator[RunSpec]:
    """The runs of an entry for one seed.

    Args:
        file: The sweep file; paths of configuration files are relative to its folder.
        entry: A checked entry of ``runs``.
        seed: The seed.
        parent: The experiment's folder.
        ancestor: Source of the ancestor; may be empty.
    """
    for values, extra in _combinations(entry.get("matrix") or {}):
        fill = {**values, "seed": seed, "runs": str(parent)}
        options = {**(entry.get("options") or {}), **extra}
        try:
            fill["ancestor"] = ancestor.format(**fill)
            name = str(entry["name"]).format(**fill)
            filled = {option: _filled(value, fill) for option, value in options.items()}
        except (KeyError, ValueError, IndexError, AttributeError) as error:
            raise UserError(f"{file}: run {shortened(entry['name'])}: unknown variable {str(error)[:100]}") from error
        check_name(name, f"{file}: name")
        label = filled.get("model.label")
        if label is not None:
            check_fields(filled, {"model.label": LINE}, f"{file}: run {shortened(name)}")
            check_label(label, f"{file}: run {shortened(name)}: model.label")
        folder, config = str(parent / name / f"seed{seed}"), str(file.parent / entry["config"])
        yield RunSpec(name, seed, folder, entry.get("command", "fit"), config, filled)


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with its variables replaced, ``{depth}`` or ``{depth:02}``, also in lists and mappings."""
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    return value.format(**values) if isinstance(value, str) else value


def _combinations(matrix: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every combination of the variables' values, with the options that belong to it."""
    for combination in itertools.product(*matrix.values()):
        values = dict(zip(matrix, combination, strict=True))
        options: dict[str, Any] = {}
        for variable, value in values.items():
            if isinstance(matrix[variable], dict):
                options |= matrix[variable][value] or {}
        yield values, options


def needed_files(sweep: Sweep, spec: RunSpec) -> dict[str, str]:
    """The files and folders of other runs that a run's options name: each -> folder of the run that writes it."""
    folders = {other.folder for other in sweep.runs} - {spec.folder}
    values = [value for _, value in all_values(spec.options) if isinstance(value, str)]
    texts = [part for text in values for part in (text, *re.split("[:,]", text))]  # hf:FOLDER,depth=6
    places = [(text, str(place)) for text in texts for place in (Path(text), *Path(text).parents)]
    return {text: place for text, place in places if place in folders}


def needed_runs(sweep: Sweep) -> dict[str, set[str]]:
    """Folder of every run -> folders of the runs that it needs."""
    return {spec.folder: set(needed_files(sweep, spec).values()) for spec in sweep.runs}


def pending_runs(sweep: Sweep, results: Path) -> list[RunSpec]:
    """The runs without rows, and finished runs whose files were removed but are needed by a pending run.

    Args:
        sweep: The sweep.
        results: CSV file that collects rows.
    """
    measured = {Path(row.run).resolve() for row in read_rows(results)} if results.is_file() else set()
    specs = {spec.folder: spec for spec in sweep.runs}
    pending: set[str] = set()
    folders = [folder for folder in specs if Path(folder).resolve() not in measured]
    while folders:
        folder = folders.pop()
        pending.add(folder)
        missing = {owner for file, owner in needed_files(sweep, specs[folder]).items() if not Path(file).exists()}
        folders += missing - pending
    return [spec for spec in sweep.runs if spec.folder in pending]


def run_arguments(spec: RunSpec, runs_dir: str, experiment: str) -> list[str]:
    """The command line of a run: ``fit`` resumes a run that was stopped, ``test`` evaluates an untrained start."""
    folder = ["--runs_dir", runs_dir, "--experiment", experiment, "--name", spec.name]
    seed = ["--seed_everything", str(spec.seed)]
    how = ["--ckpt_path", "last"] if spec.command == "fit" else ["--untrained"]
    return [spec.command, "--config", spec.config, *folder, *seed, *how, *option_arguments(spec.options)]


def option_arguments(options: Mapping[str, Any]) -> list[str]:
    """``--key=value`` for every option."""
    return [f"--{key}={value if isinstance(value, str) else in_one_line(value)}" for key, value in options.items()]


def in_one_line(value: Any) -> str:
    """A value as YAML in one line. JSON would have no word for infinity that the command line reads."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=math.inf)
    return text.removesuffix("...\n").strip()
