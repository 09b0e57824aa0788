"""Tables of pages in Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from experiments.pages.values import KEYS, Leads, Measured
from lgx.core.readable import lower_is_better
from lgx.core.task import Kind
from lgx.methods.registry import specs
from lgx.results.report import EMPTY_CELL, piped

Where = Mapping[str, Any]


def markdown(head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """A table whose first column is text, and whose others are numbers."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *body]
    return piped(map(str, line) for line in lines)


def kinds_of_methods() -> str:
    """The kinds of tasks that each method knows, as the methods declare them."""
    kinds = get_args(Kind)
    body = [
        [f"`{spec.name}`", *("yes" if kind in spec.kinds else "–" for kind in kinds), spec.why_not]
        for spec in specs().values()
    ]
    return markdown(["method", *kinds, "why not the others"], body)


def cross(outer: Mapping[str, Where], inner: Mapping[str, Where]) -> dict[str, Where]:
    """Columns for each pair of two choices: ``Flowers, 6 layers``."""
    return {f"{one}, {two}": {**first, **second} for one, first in outer.items() for two, second in inner.items()}


def depths(*numbers: int) -> dict[str, Where]:
    """Columns for depths."""
    return {f"{number} layers": {"depth": number} for number in numbers}


def tasks(**names: str) -> dict[str, Where]:
    """Columns for tasks: ``tasks(flowers12="Flowers")``."""
    return {title: {"task": name} for name, title in names.items()}


def leads(rows: Measured, one: str, other: str, columns: Mapping[str, Where]) -> Leads:
    """By how much one method is ahead of another, in each column that both have."""
    pairs = [(rows.get(one, **where), rows.get(other, **where)) for where in columns.values()]
    return Leads([first - second for first, second in pairs if first and second])


def grid(
    rows: Measured,
    lines: Mapping[str, Any],
    columns: Mapping[str, Where],
    first: str,
    best: bool = False,
    minus: str = "",
) -> str:
    """A table of methods and what was measured of them.

    Args:
        rows: The rows.
        lines: Title -> name of a method, or what distinguishes the line with its ``method`` (and ``baseline``, which
            takes the place of a column's ``minus``).
        columns: Title -> the rows of a column, see :meth:`Measured.get`. With ``minus`` it has the lead over this
            method, with ``arrow`` the values before and after training, with ``only`` the mean alone.
        first: Title of the first column.
        best: Whether the best mean of each column is bold.
        minus: Baseline of all columns, whose own line is left out.
    """
    wanted = {title: line if isinstance(line, dict) else {"method": line} for title, line in lines.items()}
    wanted = {title: line for title, line in wanted.items() if line["method"] != minus}
    shown = [{"minus": minus, **where} if minus else dict(where) for where in columns.values()]
    cells = [[_cell(rows, {**where, **line}) for where in shown] for line in wanted.values()]
    if best:
        for number in range(len(shown)):
            lowest = lower_is_better(str(rows.where["metric"]))
            _embolden([line[number] for line in cells], min if lowest else max)
    return markdown(
        [first, *columns], ([title, *(c.text for c in line)] for title, line in zip(wanted, cells, strict=True))
    )


def tuned(rows: Measured, lines: Mapping[str, str], rates: Mapping[str, str], first: str) -> str:
    """A table of learning rates that were tried, and the best of each line: *edge* where it is the smallest or largest.

    Args:
        rows: The rows.
        lines: Title -> name of a method in which ``{rate}`` stands for a rate.
        rates: The rates in their order -> how names of methods spell them.
        first: Title of the first column.
    """
    best_of = min if lower_is_better(str(rows.where["metric"])) else max
    body = []
    for title, name in lines.items():
        tried = {rate: rows.get(name.replace("{rate}", spelled)) for rate, spelled in rates.items()}
        means = {rate: values.mean for rate, values in tried.items() if values}
        best = best_of(means, key=lambda rate: means[rate])
        edge = " (edge)" * (best in (next(iter(means)), next(reversed(means))))
        body.append([title, *(values.only if values else EMPTY_CELL for values in tried.values()), f"{best}{edge}"])
    return markdown([first, *rates, "best"], body)


@dataclass
class _Cell:
    text: str = EMPTY_CELL
    mean: float | None = None


def _embolden(column: Sequence[_Cell], choose: Callable[..., float | None]) -> None:
    top = choose((cell.mean for cell in column if cell.mean is not None), default=None)
    for cell in column:
        if cell.mean is not None and cell.mean == top:
            cell.text = f"**{cell.text}**"


def _cell(rows: Measured, where: dict[str, Any]) -> _Cell:
    how = {key: where.pop(key) for key in ("minus", "baseline", "arrow", "only") if key in where}
    values = rows.get(**{**where, **({"epochs": "trained"} if "arrow" in how else {})})
    if values is None:
        return _Cell()
    if "minus" in how:
        baseline = how.get("baseline", how["minus"])
        own = {key: value for key, value in where.items() if key in KEYS}
        return _Cell() if baseline == where["method"] else _Cell((values - rows(baseline, **own)).starred)
    text = values.only if "only" in how else str(values)
    if "arrow" in how:
        text = f"{rows(**{**where, 'epochs': 'untrained'})} → {text}"
    return _Cell(text, values.mean)
