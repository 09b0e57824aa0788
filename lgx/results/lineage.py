"""Trace runs: the runs whose files each run read.

A run records a digest of each file of weights that it reads, so that the file is found wherever its run was moved.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from lgx.artifacts.learngene import Learngene
from lgx.artifacts.source_names import FOLDER, WEIGHTS_SUFFIXES
from lgx.artifacts.sources import is_learngene
from lgx.errors import UserError
from lgx.results.run_records import CONFIG, RunRecord, Start, kept_arguments
from lgx.training.same_run import flat_options
from lgx.training.sources import digest_of


class Lineage:
    """Follows runs back to the runs whose files they read.

    Args:
        runs: The compared runs; the files that they read may be elsewhere.
    """

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        self.runs = {run.folder.resolve(): run for run in runs}

    def behind(self, arguments: Mapping[str, Any], digests: Mapping[str, str]) -> list[RunRecord]:
        """Runs that wrote the files which the arguments of a method or an initializer name.

        Args:
            arguments: The arguments.
            digests: Argument -> digest of the file that it named.
        """
        return [run for path, digest in _files(arguments, digests) for run in self._authors(path, digest)]

    def all_behind(self, runs: Iterable[RunRecord]) -> list[RunRecord]:
        """The runs and all runs before them, each once."""
        traced: dict[Path, RunRecord] = {}
        waiting = list(runs)
        while waiting:
            run = waiting.pop()
            if run.folder.resolve() not in traced:
                traced[run.folder.resolve()] = run
                waiting += self.behind(run.arguments, run.digests)
        return list(traced.values())

    def is_complete(self, run: RunRecord) -> bool:
        """Whether the run behind each learngene and each missing file of a run is known."""
        files = [*_files(run.arguments, run.digests), *_files(run.start.arguments, run.start.digests)]
        needed = [one for one in files if one[1] is not None or is_learngene(str(one[0]))]
        return all(self._authors(*one) or (one[0].exists() and not is_learngene(str(one[0]))) for one in needed)

    def source(self, start: Start) -> str:
        """The file, folder or name that an initializer reads; the name of its class without a source."""
        source = str(self._located(start).get("source", start.name))
        path = Path(source.removeprefix(FOLDER))
        return str(path.resolve()) if path.exists() else source

    def stored(self, start: Start) -> int | None:
        """Parameters that a start stores; None if its files cannot be read."""
        if not start.name:
            return 0
        if start.kind is None:
            return None
        try:
            return start.kind(**kept_arguments(self._located(start))).stored_parameters
        except (UserError, TypeError):
            return None

    def _located(self, start: Start) -> dict[str, Any]:
        """Arguments of a start with the present paths of files."""
        located = dict(start.arguments)
        for name, digest in start.digests.items():
            if name in located and not Path(str(located[name]).removeprefix(FOLDER)).exists():
                located[name] = str(self._moved.get(digest, (None, located[name]))[1])
        return located

    def _authors(self, path: Path, digest: str | None) -> list[RunRecord]:
        """The run that wrote a file, or in whose folder it is; for an extracted learngene, the runs of its method."""
        for folder in (path, path.parent, path.parent.parent):
            if (folder / CONFIG).is_file():
                return [self.runs.get(folder.resolve()) or RunRecord.at(folder)]
        if digest in self._moved:
            return [self._moved[digest][0]]
        if path.is_file() and is_learngene(str(path)):
            method = Learngene.load(path).method
            return [run for run in self.runs.values() if not run.is_descendant and run.method == method]
        return []

    @cached_property
    def _moved(self) -> dict[str | None, tuple[RunRecord, Path]]:
        """Digest of each file of weights of the runs -> its run and its present path."""
        files = ((run, file) for run in self.runs.values() for file in sorted(run.folder.rglob("*")))
        return {digest_of(file): (run, file) for run, file in files if file.suffix in WEIGHTS_SUFFIXES}


def _files(arguments: Mapping[str, Any], digests: Mapping[str, str]) -> Iterator[tuple[Path, str | None]]:
    """Path and digest of each file that arguments may name."""
    for name, value in flat_options(arguments).items():
        if isinstance(value, str) and ("/" in value or is_learngene(value)):
            yield Path(value.removeprefix(FOLDER)), digests.get(name)
