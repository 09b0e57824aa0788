"""Trace runs: the runs whose files each run read.

Runs, and the networks and learngenes of ``lgx init`` and ``lgx extract``, record a digest of each file of weights that
they read. So a file is identified by its content, wherever its run was moved.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from lgx.artifacts.safetensors_files import StartRecord, read_metadata
from lgx.artifacts.source_names import SAFETENSORS, WEIGHTS_SUFFIXES, is_remote
from lgx.artifacts.sources import is_learngene, resolve_kept
from lgx.errors import UserError
from lgx.host.files import digest_of
from lgx.results.run_records import CONFIG, RunRecord, Start, kept_arguments
from lgx.training.same_run import flat_options


class Lineage:
    """Follows runs back to the runs whose files they read.

    Args:
        runs: The compared runs; the files that they read may be elsewhere.
    """

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        self.runs = {run.folder.resolve(): run for run in runs}

    def behind(self, run: RunRecord) -> list[RunRecord]:
        """Runs that wrote the files which a run read, as far as they are known."""
        return [author for authors in self._authors_of(run) for author in authors or ()]

    def all_behind(self, runs: Iterable[RunRecord]) -> list[RunRecord]:
        """The runs and all runs before them, each once."""
        traced: dict[Path, RunRecord] = {}
        waiting = list(runs)
        while waiting:
            run = waiting.pop()
            if run.folder.resolve() not in traced:
                traced[run.folder.resolve()] = run
                waiting += self.behind(run)
        return list(traced.values())

    def is_complete(self, run: RunRecord) -> bool:
        """Whether the origin of each file that a run read is known: a run, or networks that others pretrained."""
        return "sources" in run.summary and None not in self._authors_of(run)

    def source(self, start: Start) -> str:
        """What identifies the source of a start: the digest of its file, or its name."""
        return start.digests.get("source") or str(start.arguments.get("source", start.name))

    def stored(self, start: Start) -> int | None:
        """Parameters that a start stores; None if its files cannot be read."""
        if not start.name:
            return 0
        if start.kind is None:
            return None
        located = dict(start.arguments)
        for name, digest in start.digests.items():
            if name in located and not Path(str(located[name])).exists():
                located[name] = str(self._files.get(digest, located[name]))
        try:
            return start.kind(**kept_arguments(located)).stored_parameters
        except (UserError, TypeError):
            return None

    def _authors_of(self, run: RunRecord) -> list[list[RunRecord] | None]:
        options = flat_options(run.arguments)
        return [self._authors(str(options.get(option, "")), digest) for option, digest in run.digests.items()]

    def _authors(self, name: str, digest: str) -> list[RunRecord] | None:
        """The runs from which a file comes: none if others pretrained it, None if unknown.

        Args:
            name: The name under which the file was read.
            digest: Its digest.
        """
        named = resolve_kept(name).weights
        file = named if named is not None and digest_of(named) == digest else self._files.get(digest)
        if file is None:
            return [] if is_remote(name) and not is_learngene(name) else None
        for folder in file.parents[:2]:
            if (folder / CONFIG).is_file():
                return [self.runs.get(folder.resolve()) or RunRecord.at(folder)]
        read = _digests_in(file)
        origins = [self._authors(*each) for each in read]
        if None in origins or (not read and is_learngene(str(file))):
            return None
        return [author for authors in origins for author in authors or ()]

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Digest of each file of weights of the runs -> its present path."""
        files = (file for folder in self.runs for file in sorted(folder.rglob("*")))
        return {digest_of(file): file for file in files if file.suffix in WEIGHTS_SUFFIXES}


def _digests_in(file: Path) -> list[tuple[str, str]]:
    """Name and digest of each file from which ``lgx init`` or ``lgx extract`` wrote a file."""
    record = StartRecord.read(str(file.parent))
    if record is not None:
        unknown = {"source": ""} if "/" in str(record.arguments.get("source", "")) else {}
        return [(str(record.arguments.get(key, "")), digest) for key, digest in (unknown | record.digests).items()]
    about: Mapping[str, Any] = json.loads(read_metadata(file).get("lgx", "{}")) if file.suffix == SAFETENSORS else {}
    return [("", digest) for digest in about.get("sources", ())]
