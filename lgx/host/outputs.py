"""Which existing files and folders a command may replace.

A command replaces its own outputs: files record which command wrote them. With ``--force``, it also replaces outputs of
other commands and programs, but never its inputs, and never a folder with unknown files. The checks come before any
computation.
"""

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from lgx.errors import UserError

_ELSE = "choose another place"
_MARK = 4096
"""Bytes at the beginning of a file that are searched for its mark."""
_LINE = 2**24
"""Largest length of a first line, in bytes."""


def check_output(
    path: str | Path,
    command: str,
    is_own: Callable[[Path], bool],
    names: Collection[str] | None = None,
    *,
    force: bool = False,
    reads: Iterable[str | Path | None] = (),
) -> None:
    """Refuse to replace a file or folder that the command did not write, or that it reads.

    A folder is replaced as a whole. The current folder, its parents, and folders with unknown files never are.

    Args:
        path: What to write; it need not exist.
        command: What the user calls the command, e.g. ``lgx embed``.
        is_own: Whether this command wrote what exists.
        names: What a model folder may hold; None for a file.
        force: Whether what other commands and programs wrote may be replaced.
        reads: Files and folders that the command reads. Other names and None are ignored.
    """
    path, place, held = Path(path), f"--out {path}", set[str]()
    if "://" in place:
        raise UserError(f"{place}: expected a local file or folder; upload with `hf upload`")
    if not os.path.lexists(path):
        return
    if names is not None:
        if not path.is_dir():
            raise UserError(f"{place}: is a file, expected a folder; {_ELSE}")
        held = {entry.name for entry in path.iterdir()}
        if unknown := sorted(held - {*names}):
            raise UserError(f"{place}: holds {unknown[0]}, which does not belong to a model folder; {_ELSE}")
        if path.resolve() in (Path.cwd(), *Path.cwd().parents):
            raise UserError(f"{place}: is the current folder or one above it; {_ELSE}")
    elif path.exists() and not path.is_file():
        raise UserError(f"{place}: is a folder or a device, expected a file; {_ELSE}")
    # A name of timm or of a hub is not a path; os.path.exists accepts every text.
    sources = [Path(source) for source in reads if source is not None and os.path.exists(source)]
    for source in sources:
        if (path.exists() and path.samefile(source)) or path.resolve() in source.resolve().parents:
            raise UserError(f"{place}: would replace {source}, which this command reads; {_ELSE}")
    if (names is not None and not held) or is_own(path):
        return
    above = next((each for each in sources if each.is_dir() and each.resolve() in path.resolve().parents), None)
    if above and names is None:
        raise UserError(f"{place}: is inside {above}, which this command reads; {_ELSE}")
    if not force:
        raise UserError(f"{place}: exists, and `{command}` did not write it; {_ELSE}, or replace it with --force")


def has_mark(path: Path, mark: str) -> bool:
    """Whether the first bytes of a file contain a mark; False if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return mark.encode() in file.read(_MARK)
    except OSError:
        return False


def first_line(path: Path) -> str:
    """The first line of a text file, without its end; empty if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return file.readline(_LINE).decode("utf-8", "surrogateescape").rstrip("\r\n")
    except OSError:
        return ""
