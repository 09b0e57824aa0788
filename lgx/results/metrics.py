"""How metrics are shown, which direction is better, and which of them is fair where the classes of a set are uneven."""

import csv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lgx.core.readable import clipped, from_cell
from lgx.core.readable import in_words as in_words
from lgx.core.readable import is_share as is_share
from lgx.core.readable import lower_is_better as lower_is_better
from lgx.core.rows import CLASS_TABLE, Row
from lgx.core.task import BALANCED, PERPLEXITY

ACCURACY = "acc"
_UNEVEN = 1.2
"""Classes are uneven if always predicting the largest one gives this many times chance."""


def scale_of(metric: str) -> float:
    """Factor from a measured to a shown value."""
    return 100.0 if is_share(metric) else 1.0


def heading(metric: str) -> str:
    """The metric with its unit: ``acc (%)``, ``loss``."""
    return f"{metric} (%)" if is_share(metric) else metric


def number(value: float, metric: str) -> str:
    """A value that :func:`scale_of` has scaled, in words: two decimals for percent, four for others."""
    return f"{value:.2f}" if is_share(metric) else f"{value:.4f}"


def fair_metric(rows: Sequence[Row], folders: Mapping[str, Path]) -> tuple[str, list[str]]:
    """The default metric of tests, and a sentence if it is not the main one.

    It is perplexity or mean average precision if all runs measured it, and balanced accuracy, the mean of the classes'
    recalls, if a set has uneven classes and all runs measured it.

    Args:
        rows: Rows of any splits and metrics.
        folders: Folder of each run by its name, with the examples of each class.
    """
    tested = {row.run for row in rows if row.split == "test"}
    for main in (PERPLEXITY, "map"):
        if tested and tested == {row.run for row in rows if row.split == "test" and row.metric == main}:
            return main, []
    tests = [row for row in rows if row.split == "test" and row.metric in (ACCURACY, BALANCED)]
    tasks = {row.run: row.task for row in tests}
    uneven = {
        task: words for run, task in tasks.items() if run in folders and (words := _largest(folders[run] / CLASS_TABLE))
    }
    if not uneven:
        return ACCURACY, []
    listed = "; ".join(f"{task}: largest class {words}" for task, words in sorted(uneven.items()))
    plain, balanced = ({row.key[:5] for row in tests if row.metric == metric} for metric in (ACCURACY, BALANCED))
    if plain - balanced:
        return ACCURACY, [f"Classes are uneven ({listed}), but some runs have no balanced accuracy: test them again."]
    return BALANCED, [f"Judged on balanced accuracy, because classes are uneven ({listed}); else give --metric acc."]


def _largest(table: Path) -> str:
    """The largest class and its share, if classes are uneven: ``pneumonia 62.5 %``; else, or without a file, empty."""
    counts: dict[str, int] = {}
    with suppress(OSError, ValueError, KeyError), table.open(encoding="utf-8", newline="") as file:
        counts = {from_cell(row["class"]): int(row["examples"]) for row in csv.DictReader(file)}
    total = sum(counts.values())
    name = max(counts, key=lambda name: counts[name], default="")
    if not total or counts[name] * len(counts) < _UNEVEN * total:
        return ""
    return f"{clipped(name)} {100 * counts[name] / total:.1f} %"
