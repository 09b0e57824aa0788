"""Starts of descendants in a sweep file: every start on every task, with every size and number of epochs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lgx.core.names import check_label, check_name
from lgx.core.schema import LINE, MAPPING, Field, check_fields, list_of, mapping_of, one_of, shortened
from lgx.errors import UserError

_KEYS = {"experiment", "seeds", "config", "tasks", "sizes", "budgets", "starts", "scratch"}
_OPTIONAL = {"ancestor", "sources"}
_NAMED = Field(lambda value: value != {} and mapping_of(MAPPING).holds(value), "a mapping from each name to options")
_EPOCHS = Field(
    lambda value: isinstance(value, list) and bool(value) and all(type(each) is int and each >= 0 for each in value),
    "whole numbers of epochs, 0 for none",
)


class Cell(NamedTuple):
    """What the runs of one start have in common.

    Attributes:
        task: Name of the task in the file.
        size: Name of the size.
        start: Name of the start, which is the method of its rows.
    """

    task: str
    size: str
    start: str


@dataclass(frozen=True)
class Starts:
    """The content of a sweep file with starts.

    Attributes:
        content: The checked content.
    """

    content: Mapping[str, Any]

    @property
    def scratch(self) -> str:
        """The start from random weights, which is trained with as much compute as the costliest start."""
        return str(self.content["scratch"])

    def epochs(self, start: str) -> list[int]:
        """Numbers of epochs that are trained from a start."""
        return list(self.content["starts"][start].get("budgets", self.content["budgets"]))

    def cells(self) -> Iterator[Cell]:
        """Every task, size and start."""
        for start, entry in self.content["starts"].items():
            for task in self.content["tasks"]:
                yield from (Cell(task, size, start) for size in entry.get("sizes", self.content["sizes"]))

    def cell_of(self, run: str) -> Cell | None:
        """The cell of a run by its name; None for the run of a source."""
        return next((cell for cell in self.cells() if "-".join(cell) == run.rpartition("-")[0]), None)

    def sweep(self, longer: Mapping[Cell, int] | None = None) -> dict[str, Any]:
        """The file as a sweep without starts.

        Args:
            longer: Cells that are trained once more, with this number of epochs.
        """
        runs = list(self._sources())
        for cell in self.cells():
            entry = self.content["starts"][cell.start]
            epochs = [*self.epochs(cell.start), *([longer[cell]] if longer and cell in longer else [])]
            runs += [self._run(cell, entry, each) for each in dict.fromkeys(epochs)]
        kept = {key: self.content[key] for key in ("experiment", "seeds", "ancestor") if key in self.content}
        return {**kept, "runs": runs}

    def _sources(self) -> Iterator[dict[str, Any]]:
        for name, source in self.content.get("sources", {}).items():
            every = {"task": self.content["tasks"], "size": self.content["sizes"]}
            yield {"name": name, **source, "matrix": {key: every[key] for key in every if f"{{{key}}}" in name}}

    def _run(self, cell: Cell, entry: Mapping[str, Any], epochs: int) -> dict[str, Any]:
        sizes = entry["sizes"] if isinstance(entry.get("sizes"), dict) else self.content["sizes"]
        trained = {"trainer.max_epochs": epochs, "test_end": True} if epochs else {}
        of_start = {"model.label": cell.start, **entry.get("options", {})}
        return {
            "name": f"{{task}}-{{size}}-{cell.start}-{epochs}",
            "command": "fit" if epochs else "test",
            "config": entry.get("config", self.content["config"]),
            "options": {**self.content["tasks"][cell.task], **sizes[cell.size], **of_start, **trained},
            "matrix": {"task": [cell.task], "size": [cell.size]},
        }

    def shares(self, needs: Mapping[str, set[str]], runs_dir: str) -> dict[str, dict[str, int]]:
        """For each run of a cell, the runs of its sources, each with the number of tasks × sizes that share it.

        The ancestor does not count, even if a run of the sweep trains it. Two pairs of task and size share a source if
        both start from it in the same way and with the same seed.

        Args:
            needs: Folder of every run -> folders of the runs that it needs.
            runs_dir: Folder of all runs.
        """
        ancestor = self.content.get("ancestor", "").replace("{runs}", str(Path(runs_dir) / self.content["experiment"]))
        trained = {str(p) for seed in self.content["seeds"] for p in Path(ancestor.format(seed=seed)).parents}
        cells = {folder: cell for folder in needs if (cell := self.cell_of(Path(folder).parent.name))}
        behind = {folder: all_behind(needs, folder) - trained for folder in cells}
        users: dict[tuple[str, str, str], set[Cell]] = {}
        for folder, cell in cells.items():
            for source in behind[folder]:
                users.setdefault((source, cell.start, Path(folder).name), set()).add(cell)
        return {
            folder: {source: len(users[source, cell.start, Path(folder).name]) for source in behind[folder]}
            for folder, cell in cells.items()
        }


def all_behind(needs: Mapping[str, set[str]], folder: str) -> set[str]:
    """All runs that a run needs, directly or through others; no run needs itself."""
    return needs[folder].union(*(all_behind(needs, other) for other in needs[folder]))


def read_starts(file: Path, content: Mapping[str, Any]) -> Starts:
    """Check the content of a sweep file with starts.

    Args:
        file: The file, for messages.
        content: ``experiment``, ``seeds``, ``config``, ``tasks``, ``sizes``, ``budgets``, ``starts``, ``scratch``, and
            optionally ``ancestor`` and ``sources``.
    """
    _check_keys(str(file), content, _KEYS, _OPTIONAL)
    described = {**dict.fromkeys(("tasks", "sizes", "starts"), _NAMED), "budgets": _EPOCHS}
    check_fields(content, {**described, "sources": mapping_of(MAPPING), "ancestor": LINE}, str(file))
    for name in (*content["tasks"], *content["sizes"]):
        check_name(name, f"{file}: tasks and sizes")
        if "/" in name:
            raise UserError(f"{file}: tasks and sizes: a name must not contain /, got {name}")
    check_fields(content, {"scratch": one_of(*content["starts"])}, str(file))
    parts = {"options": MAPPING, "config": LINE, "sizes": list_of(one_of(*content["sizes"])), "budgets": _EPOCHS}
    for name, entry in content["starts"].items():
        place = f"{file}: starts.{name}"
        check_label(name, place)
        _check_keys(place, entry, (), parts)
        check_fields(entry, {**parts, "sizes": _NAMED} if isinstance(entry.get("sizes"), dict) else parts, place)
    return Starts(content)


def _check_keys(place: str, content: Mapping[str, Any], needed: Iterable[str], optional: Iterable[str]) -> None:
    expected: Sequence[str] = sorted({*needed, *optional})
    missing = sorted({*needed} - content.keys())
    if missing:
        raise UserError(f"{place}: lacks {', '.join(missing)}; its keys are {', '.join(expected)}")
    unknown = sorted(content.keys() - {*expected})
    if unknown:
        raise UserError(f"{place}: unknown key {shortened(unknown[0])}; its keys are {', '.join(expected)}")
