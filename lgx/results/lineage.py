"""Trace runs: the runs whose files each run read, and what each run trained."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.source_names import FOLDER, TimmSource
from lgx.artifacts.sources import is_learngene, resolve_kept
from lgx.core.flops import flop_counter
from lgx.core.task import height_width
from lgx.errors import UserError
from lgx.results.run_records import CONFIG, RunRecord, Start, Work, kept_arguments
from lgx.runs.sweeps import texts_in


class Lineage:
    """Follows runs back to the runs whose files they read, also after folders were moved.

    Args:
        runs: The compared runs; the files that they read may be elsewhere.
    """

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        self.runs = {run.folder.resolve(): run for run in runs}

    def behind(self, arguments: Mapping[str, Any]) -> list[RunRecord]:
        """Runs that wrote the files which the arguments of a method or an initializer name."""
        return [run for text in _paths(arguments) for run in self._authors(Path(text.removeprefix(FOLDER)))]

    def all_behind(self, runs: Iterable[RunRecord]) -> list[RunRecord]:
        """The runs and all runs before them, each once."""
        found: dict[Path, RunRecord] = {}
        waiting = list(runs)
        while waiting:
            run = waiting.pop()
            if run.folder.resolve() not in found:
                found[run.folder.resolve()] = run
                waiting += self.behind(run.arguments)
        return list(found.values())

    def work(self, run: RunRecord, macs: float | None = None) -> Work:
        """The training of a run's network; ``macs``: of one image's forward pass, by default those of the network."""
        return Work.of(macs or run.macs, run.epochs, run.images, self.teacher_macs(run), run.summary.get("seconds"))

    def source(self, start: Start) -> str:
        """The file, folder or name that an initializer reads; the name of its class without a source."""
        source = str(self._located(start.arguments).get("source", start.name))
        path = Path(source.removeprefix(FOLDER))
        return str(path.resolve()) if path.exists() else source

    def stored(self, start: Start) -> int | None:
        """Parameters that a start stores; None if its files cannot be read."""
        if not start.name:
            return 0
        if start.kind is None:
            return None
        try:
            return start.kind(**kept_arguments(self._located(start.arguments))).stored_parameters
        except (UserError, TypeError):
            return None

    def _located(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments with the present paths of files."""
        located = dict(arguments)
        for name, value in arguments.items():
            if isinstance(value, str) and _paths(value):
                path = Path(value.removeprefix(FOLDER))
                if not path.exists() and (written := self._written(path)) is not None:
                    located[name] = f"{FOLDER if value.startswith(FOLDER) else ''}{written[1]}"
        return located

    def _authors(self, path: Path) -> list[RunRecord]:
        """The run that wrote a file; for an extracted learngene, the runs of its method."""
        if (written := self._written(path)) is not None:
            return [written[0]]
        if path.is_file() and is_learngene(str(path)):
            method = Learngene.load(path).method
            return [run for run in self.runs.values() if not run.is_descendant and run.method == method]
        return []

    def _written(self, path: Path) -> tuple[RunRecord, Path] | None:
        """The run whose folder this is, or in which a file is, also in a folder below it, and where it is now."""
        for folder in (path, path.parent, path.parent.parent):
            if (known := self.runs.get(folder.resolve())) is not None:
                return known, path
            if (folder / CONFIG).is_file():
                return RunRecord.at(folder), path
            for place, moved in self.runs.items():
                if place.parts[-3:] == folder.parts[-3:]:  # experiment, name and seed of a run
                    return moved, moved.folder / path.relative_to(folder)
        return None

    def teacher_macs(self, run: RunRecord) -> float | None:
        """MACs of one image through the teacher of a run, 0 without one; None where it is not here."""
        if not run.teacher:
            return 0.0
        if authors := self._authors(Path(run.teacher.removeprefix(FOLDER))):
            return authors[0].macs
        name = resolve_kept(run.teacher).place
        if is_learngene(name) and Path(name).is_file():
            return cost_of(Learngene.load(name).architecture).macs
        return _timm_macs(name)


@cache
def _timm_macs(name: str) -> float | None:
    """MACs of one image through a model that timm knows by name; None for others, which may be remote."""
    if (source := TimmSource.named(name)) is None:
        return None
    model = source.build().eval()
    channels, *size = model.default_cfg["input_size"]
    size = [*height_width(source.img_size)] if source.img_size else size
    image = torch.zeros(1, source.in_chans or channels, *size)
    with torch.no_grad(), flop_counter() as counter:
        model(image)
    return float(counter.get_total_flops() / 2)


def _paths(value: Any) -> list[str]:
    """All texts of a configuration that may be paths."""
    return [text for text in dict.fromkeys(texts_in(value)) if "/" in text or is_learngene(text)]
