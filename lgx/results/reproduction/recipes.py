"""The index of the papers' tables and figures, with the command lines that reproduce them at each scale."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.results.claims import Claim
from lgx.results.comparison import Options
from lgx.results.paper import table_names
from lgx.results.reproduction.steps import Step

FILE = Path("experiments/index.yaml")
SCALES = ("pocket", "mini", "paper")
_KEYS = {"title", "numbers", "claims", "controls", *SCALES}
_LISTS = ("results", "measured", "tasks", "methods", "show")
_SCALE_KEYS = {"steps", "metric", "metrics", "split", "confounded", "architectures", "stored", "labels", *_LISTS}


@dataclass(frozen=True)
class Scale:
    """How a table is reproduced at one scale.

    Attributes:
        steps: Command lines in their order.
        results: Folders of runs, or files of rows, with the measurements.
        measured: Committed files with rows of earlier measurements; may be empty.
        tasks: Names of the tasks to compare; empty for all.
        methods: Names of the methods to compare; empty for all.
        metric: Metric that is compared.
        metrics: Metric of tasks that are judged on another one, by their names.
        split: Split on which it is measured.
        show: Command lines that draw figures; ``{out}`` is the folder of the results.
        confounded: For claims whose two sides differ in more than the method at this scale, what else differs.
        architectures: For claims about some architectures only, their names at this scale.
        stored: By method, the architecture of what it stores, or ``each`` for separate networks; runs tell it, too.
        labels: Label in the rows -> method of the claims, where the two differ.
    """

    steps: tuple[Step, ...]
    results: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    metric: str = "acc"
    split: str = "test"
    show: tuple[str, ...] = ()
    metrics: Mapping[str, str] = field(default_factory=dict)
    confounded: Mapping[Claim, str] = field(default_factory=dict)
    architectures: Mapping[Claim, tuple[str, ...]] = field(default_factory=dict)
    stored: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A table or figure of a paper.

    Attributes:
        name: ``tal/table2``.
        title: What it shows.
        numbers: Its table in ``experiments/paper_numbers.yaml``; None for a figure without printed numbers.
        claims: The paper's claims about it.
        controls: Comparisons in the form of claims that the paper does not make.
        scales: Its reproduction at each scale.
    """

    name: str
    title: str
    numbers: str | None
    claims: tuple[Claim, ...]
    controls: tuple[Claim, ...]
    scales: Mapping[str, Scale]

    def at(self, scale: str) -> Scale:
        """Its reproduction at a scale.

        Raises:
            UserError: If there is no such scale, or not for this table.
        """
        if scale not in self.scales:
            raise UserError(f"--scale {scale}: {self.name} has {', '.join(self.scales)}")
        return self.scales[scale]

    def options(self, scale: str, measured: bool = False) -> Options:
        """How its measurements at a scale are compared.

        Args:
            scale: The scale.
            measured: Whether these are committed rows, not those of runs.

        Raises:
            UserError: If there is no such scale.
        """
        how, paper = self.at(scale), self.scales.get("paper")
        return Options(
            how.metric, how.split, self.numbers,
            methods=how.methods, tasks=how.tasks, claims=self.claims + self.controls, task_metrics=how.metrics,
            confounded=how.confounded, architectures=how.architectures, stored=how.stored,
            paper_architectures=paper.architectures if paper else {}, labels=how.labels, folders=not measured,
        )  # fmt: skip


def load_recipes(file: Path = FILE) -> dict[str, Recipe]:
    """All tables and figures by name.

    Raises:
        UserError: If the index is missing or malformed.
    """
    if not file.is_file():
        raise UserError(f"{file}: no such file; run from the repository's folder")
    content = read_yaml(file, "it is a part of the repository")
    if not isinstance(content, dict):
        raise UserError(f"{file}: expected a mapping from names of tables to their reproductions")
    known = set(table_names())
    recipes = {}
    for name, entry in content.items():
        if str(name).startswith("."):  # shared by several entries
            continue
        try:
            recipes[name] = _recipe(name, entry, known)
        except UserError as error:
            raise UserError(f"{file}, {name}: {error}") from error
    return recipes


def load_recipe(name: str, file: Path = FILE) -> Recipe:
    """One table or figure.

    Raises:
        UserError: If there is no such table or figure; the message lists the nearest names.
    """
    recipes = load_recipes(file)
    if name not in recipes:
        close = difflib.get_close_matches(name, recipes, n=3, cutoff=0.5)
        hint = f"nearest are {', '.join(close)}" if close else f"known are {', '.join(recipes)}"
        raise UserError(f"unknown table or figure {name!r}; {hint}")
    return recipes[name]


def _recipe(name: str, entry: Any, known: set[str]) -> Recipe:
    _check(entry, _KEYS, "the entry")
    numbers = entry.get("numbers", name if name in known else None)
    if numbers is not None and numbers not in known:
        raise UserError(f"numbers {numbers!r}: no such table in the papers' numbers")
    claims, controls = (tuple(map(Claim.parse, entry.get(key, ()))) for key in ("claims", "controls"))
    scales = {scale: _scale(scale, entry[scale]) for scale in SCALES if scale in entry}
    if not scales or "title" not in entry:
        raise UserError("expected a title and at least one of pocket, mini and paper")
    for scale, how in scales.items():
        for key, about in (("confounded", how.confounded), ("architectures", how.architectures)):
            if unknown := about.keys() - {*claims, *controls}:
                raise UserError(f"{scale}: {key}: '{next(iter(unknown))}' is no claim of this entry")
    return Recipe(name, str(entry["title"]), numbers, claims, controls, scales)


def _scale(name: str, entry: Any) -> Scale:
    _check(entry, _SCALE_KEYS, name)
    given: dict[str, Any] = {key: tuple(map(str, _flat(entry[key]))) for key in _LISTS if key in entry}
    given |= {key: str(entry[key]) for key in ("metric", "split") if key in entry}
    for key in ("metrics", "confounded", "architectures", "stored", "labels"):
        _check(entry.get(key, {}), entry.get(key, {}), key)
    for key in ("metrics", "stored", "labels"):
        given[key] = {str(name): str(value) for name, value in entry.get(key, {}).items()}
    given["confounded"] = {Claim.parse(claim): str(reason) for claim, reason in entry.get("confounded", {}).items()}
    given["architectures"] = {
        Claim.parse(claim): tuple(map(str, _flat(names))) for claim, names in entry.get("architectures", {}).items()
    }
    return Scale(tuple(map(Step.parse, _flat(entry.get("steps", ())))), **given)


def _flat(value: Any) -> Sequence[Any]:
    """The items of nested lists: entries that share items refer to a list of them."""
    if not isinstance(value, list | tuple):
        return [value]
    return [item for part in value for item in (_flat(part) if isinstance(part, list) else [part])]


def _check(entry: Any, known: set[str], what: str) -> None:
    if not isinstance(entry, dict):
        raise UserError(f"{what}: expected keys and values, got {str(entry)[:60]!r}")
    if unknown := sorted(map(str, entry.keys() - known)):
        raise UserError(f"{what}: unknown key {unknown[0]}; known are {', '.join(sorted(known))}")
