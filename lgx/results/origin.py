"""Where the numbers of a report come from: date, code, machines, seeds and test examples."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from lgx.core.rows import Row
from lgx.core.version import __version__
from lgx.results.sections import Item, Section

_MOST = 12
"""Most names that are listed one by one."""


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
            Item("Date", f"Written on {today():%Y-%m-%d}, by lgx {__version__}{newest}."),
            Item("Runs", f"{len(rows):,} values of {len(runs):,} run(s), seeds {seeds}, after {epochs} epoch(s)."),
            Item("Examples", _examples(rows)),
            Item("Hardware", _counted(row.hardware for row in runs.values())),
            Item("Commits of the code", _counted(row.commit for row in runs.values())),
        ],
    )


def today() -> datetime:
    """The time of ``SOURCE_DATE_EPOCH``, by which reproducible builds state it; else the present time."""
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
