"""Sections of a report on methods, the course of training, and the origin of numbers."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from lgx.core.rows import UNLISTED, Row
from lgx.core.version import __version__
from lgx.methods import registry
from lgx.results.looks import label_of, method_order
from lgx.results.merging import Merged
from lgx.results.report import Cell, Item, Section, Table

_MOST = 12
"""Largest number of listed names."""
_HEALTH = ("loss_at_start", "loss_at_end", "gradient_norm")


def method_section(names: Iterable[str]) -> Section:
    """The methods of a report: labels and names in tables, summary, and paper."""
    ordered = sorted(set(names), key=method_order)
    specs = {name: registry.find_spec(name) for name in ordered}
    items = []
    for spec in dict.fromkeys(spec for spec in specs.values() if spec):
        labels = ", ".join(f"{label_of(name)} ({name})" for name, found in specs.items() if found is spec)
        items.append(Item(labels, f"{spec.summary} {spec.paper}.".strip(), spec.url))
    undeclared = [name for name, spec in specs.items() if spec is None]
    rest = f"Names that no installed method declares: {', '.join(undeclared)}. The runs' configurations chose them."
    return Section("Methods", items=items, below=[rest] if undeclared else [])


def health_section(rows: Iterable[Row], merged: Merged) -> Section | None:
    """The course of training with each method, as medians over runs; None without records.

    Args:
        rows: Rows of the runs.
        merged: All rows, with the folders of their runs.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for method, run in dict.fromkeys((row.method, row.run) for row in rows if not row.method.endswith(UNLISTED)):
        if isinstance(health := merged.summary(run).get("health"), Mapping):
            found.setdefault(method, []).append(health)
    if not found:
        return None
    lines = tuple((label_of(method), _health(found[method])) for method in sorted(found, key=method_order))
    text = ["Medians over runs. The minimized losses differ between methods."]
    heads = ("runs", "loss at start", "loss at end", "gradient norm at end")
    return Section("Training health", text, [Table("", heads, lines)])


def origin_section(rows: Sequence[Row], files: Iterable[Path] = ()) -> Section:
    """Date, code, machines, seeds and test examples.

    Args:
        rows: The rows that the report shows.
        files: The files that they were read from.
    """
    runs = {row.run: row for row in rows}
    changed = [datetime.fromtimestamp(file.stat().st_mtime, UTC) for file in files if file.is_file()]
    newest = f"; the newest file of results is of {max(changed):%Y-%m-%d}" if changed else ""
    seeds = ", ".join(str(seed) for seed in sorted({row.seed for row in rows}))
    epochs = ", ".join(str(count) for count in sorted({row.epochs for row in rows}))
    return Section(
        "Where the numbers come from",
        items=[
            Item("Date", f"Written on {_today():%Y-%m-%d}, by lgx {__version__}{newest}."),
            Item("Runs", f"{len(rows):,} values of {len(runs):,} run(s), seeds {seeds}, after {epochs} epoch(s)."),
            Item("Examples", _examples(rows)),
            Item("Hardware", _counted(row.hardware for row in runs.values())),
            Item("Commits of the code", _counted(row.commit for row in runs.values())),
        ],
    )


def _health(runs: Sequence[Mapping[str, Any]]) -> tuple[Cell, ...]:
    values = ([value for health in runs if isinstance(value := health.get(key), int | float)] for key in _HEALTH)
    medians = (f"{median(known):.4g}" if known else "-" for known in values)
    return tuple(map(Cell, (str(len(runs)), *medians)))


def _today() -> datetime:
    """The time of ``SOURCE_DATE_EPOCH`` (for reproducible builds), else the present time."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(stated), UTC) if stated.isdigit() else datetime.now(UTC)


def _examples(rows: Iterable[Row]) -> str:
    """Number of measured examples of each task and split."""
    counts: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        counts.setdefault((row.task, row.split), set()).add(row.n)
    words = []
    for (task, split), found in sorted(counts.items()):
        number = f"{min(found):,}" if len(found) == 1 else f"{min(found):,} to {max(found):,}"
        words.append(f"{task} {number} ({split})")
    return f"{_listed(words)}."


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    unknown = counts.pop("", 0)
    words = [f"{name} ({count} run{'s' * (count != 1)})" for name, count in counts.most_common()]
    words += [f"unknown ({unknown} run{'s' * (unknown != 1)})"] if unknown else []
    return f"{_listed(words)}."


def _listed(words: Sequence[str]) -> str:
    if len(words) <= _MOST:
        return ", ".join(words)
    return f"{', '.join(words[:_MOST])}, and {len(words) - _MOST} more"
