"""The index of the papers' tables and figures, with the command lines that reproduce them at each scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.reproduce.claims import Claim
from experiments.reproduce.judging import Judging
from experiments.reproduce.paper import load_table, table_names
from experiments.reproduce.steps import Step
from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.results.comparison import Options

FILE = Path("experiments/index.yaml")
SCALES = ("pocket", "mini", "paper")
_KEYS = {"title", "numbers", "claims", "controls", *SCALES}
_LISTS = ("results", "measured", "tasks", "methods", "show")
_OPTIONS = ("metric", "metrics", "split", "cost", "labels")
_SCALE_KEYS = {"steps", "confounded", "remarks", "architectures", "stored", *_OPTIONS, *_LISTS}


@dataclass(frozen=True)
class Scale:
    """How a table is reproduced at one scale.

    Attributes:
        steps: Command lines in their order.
        results: Folders of runs, or files of rows, with the measurements.
        measured: Committed files with rows of earlier measurements; may be empty.
        show: Arguments of ``python -m experiments.analyze`` or ``lgx`` that show results; ``{out}`` is their folder.
        options: How the measurements are compared, without what all scales share.
        judging: How claims about them are judged, likewise.
    """

    steps: tuple[Step, ...]
    results: tuple[str, ...]
    measured: tuple[str, ...]
    show: tuple[str, ...]
    options: Options
    judging: Judging


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

    def of_runs(self, scale: str, runs: Sequence[str]) -> "Recipe":
        """The comparison of other runs by the options of a scale, without a step.

        Raises:
            UserError: If there is no such scale.
        """
        how = replace(self.at(scale), steps=(), results=tuple(runs), show=())
        return replace(self, scales={**self.scales, scale: how})

    def judging(self, scale: str, measured: bool = False) -> Judging:
        """How its claims are judged at a scale.

        Args:
            scale: The scale.
            measured: Whether by committed rows, not those of runs.

        Raises:
            UserError: If there is no such scale.
        """
        paper = self.scales.get("paper")
        return replace(
            self.at(scale).judging,
            claims=self.claims + self.controls,
            paper_architectures=paper.judging.architectures if paper else {},
            folders=not measured,
            numbers=self.numbers,
        )


def load_recipes(file: Path = FILE) -> dict[str, Recipe]:
    """All tables and figures by name.

    Raises:
        UserError: If the index is missing or malformed.
    """
    known, recipes = set(table_names()), {}
    for name, entry in read_yaml(file, "run from the repository's folder").items():
        if str(name).startswith("."):  # shared by several entries
            continue
        try:
            recipes[name] = _recipe(name, entry, known)
        except (UserError, TypeError, AttributeError) as error:
            raise UserError(f"{file}, {name}: {error}") from error
    return recipes


def load_recipe(name: str, file: Path = FILE) -> Recipe:
    """One table or figure.

    Raises:
        UserError: If there is no such table or figure.
    """
    recipes = load_recipes(file)
    if name not in recipes:
        raise UserError(f"unknown table or figure {name!r}; known are {', '.join(recipes)}")
    return recipes[name]


def recipe_without_runs(numbers: str) -> Recipe:
    """A table that no entry of the index reproduces; its printed numbers can be shown beside any runs."""
    how = Scale((), (), (), (), Options(), Judging())
    return Recipe(numbers, load_table(numbers).title, numbers, (), (), dict.fromkeys(SCALES, how))


def _recipe(name: str, entry: Mapping[str, Any], known: set[str]) -> Recipe:
    _check(entry, _KEYS)
    numbers = entry.get("numbers", name if name in known else None)
    if numbers is not None and numbers not in known:
        raise UserError(f"numbers {numbers!r}: no such table in the papers' numbers")
    claims, controls = (tuple(map(Claim.parse, entry.get(key, ()))) for key in ("claims", "controls"))
    scales = {scale: _scale(entry[scale]) for scale in SCALES if scale in entry}
    if not scales or "title" not in entry:
        raise UserError("expected a title and at least one of pocket, mini and paper")
    for scale, how in scales.items():
        for key in ("confounded", "remarks", "architectures"):
            if unknown := getattr(how.judging, key).keys() - {*claims, *controls}:
                raise UserError(f"{scale}: {key}: '{next(iter(unknown))}' is no claim of this entry")
    return Recipe(name, str(entry["title"]), numbers, claims, controls, scales)


def _scale(entry: Mapping[str, Any]) -> Scale:
    _check(entry, _SCALE_KEYS)
    results, measured, tasks, methods, show = (tuple(map(str, _flat(entry.get(key, ())))) for key in _LISTS)
    options = Options(
        entry.get("metric", "acc"),
        entry.get("split", "test"),
        methods=methods,
        tasks=tasks,
        cost=entry.get("cost", False),
        task_metrics=entry.get("metrics", {}),
        labels=entry.get("labels", {}),
    )
    judging = Judging(
        confounded={Claim.parse(claim): reason for claim, reason in entry.get("confounded", {}).items()},
        remarks={Claim.parse(claim): remark for claim, remark in entry.get("remarks", {}).items()},
        architectures={
            Claim.parse(claim): tuple(_flat(names)) for claim, names in entry.get("architectures", {}).items()
        },
        stored=entry.get("stored", {}),
    )
    return Scale(tuple(map(Step.parse, _flat(entry.get("steps", ())))), results, measured, show, options, judging)


def _flat(value: Any) -> Sequence[Any]:
    """The items of nested lists: entries that share items refer to a list of them."""
    if not isinstance(value, list | tuple):
        return [value]
    return [item for part in value for item in (_flat(part) if isinstance(part, list) else [part])]


def _check(entry: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(entry.keys() - known):
        raise UserError(f"unknown key {unknown[0]}; known are {', '.join(sorted(known))}")
