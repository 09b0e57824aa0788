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


def check_file(
    path: str | Path,
    command: str,
    is_own: Callable[[Path], bool],
    *,
    force: bool = False,
    reads: Iterable[str | Path | None] = (),
) -> None:
    """Refuse to replace a file that the command did not write, or that it reads.

    Args:
        path: The file to write; it need not exist.
        command: What the user calls the command, e.g. ``lgx embed``.
        is_own: Whether this command wrote an existing file.
        force: Whether files of other commands and programs may be replaced.
        reads: Files and folders that the command reads. Other names and None are ignored.
    """
    path, place = Path(path), _place(path)
    if not os.path.lexists(path):
        return
    if path.exists() and not path.is_file():
        raise UserError(f"{place}: is a folder or a device, expected a file; {_ELSE}")
    sources = _not_replaced(path, place, reads)
    if is_own(path):
        return
    if source := next((each for each in sources if each.is_dir() and each.resolve() in path.resolve().parents), None):
        raise UserError(f"{place}: is inside {source}, which this command reads; {_ELSE}")
    if not force:
        raise _foreign(place, command)


def check_folder(
    path: str | Path,
    command: str,
    is_own: Callable[[Path], bool],
    content: tuple[str, Collection[str]],
    *,
    force: bool = False,
    reads: Iterable[str | Path | None] = (),
) -> None:
    """Refuse to replace a folder as a whole if the command did not write it or reads from it.

    A folder with unknown files, the current folder and its parents are never replaced.

    Args:
        path: The folder to write; it need not exist.
        command: What the user calls the command, e.g. ``lgx init``.
        is_own: Whether this command wrote an existing folder.
        content: Name of this kind of folder, and the names of its allowed files.
        force: Whether such folders of other commands and programs may be replaced.
        reads: What the command reads, see :func:`check_file`.
    """
    path, place = Path(path), _place(path)
    if not os.path.lexists(path):
        return
    what, known = content
    if not path.is_dir():
        raise UserError(f"{place}: is a file, expected a folder; {_ELSE}")
    names = {entry.name for entry in path.iterdir()}
    if unknown := sorted(names - {*known}):
        raise UserError(f"{place}: holds {unknown[0]}, which does not belong to a {what}; {_ELSE}")
    if path.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise UserError(f"{place}: is the current folder or one above it; {_ELSE}")
    _not_replaced(path, place, reads)
    if names and not is_own(path) and not force:
        raise _foreign(place, command)


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


def _place(path: str | Path) -> str:
    """The place's name for messages; URLs are refused."""
    if "://" in str(path):
        raise UserError(f"--out {path}: expected a local file or folder; upload with `hf upload`")
    return f"--out {path}"


def _not_replaced(path: Path, place: str, reads: Iterable[str | Path | None]) -> list[Path]:
    """The files and folders that a command reads; a UserError if the place is or contains one of them."""
    # A name of timm or of a hub is not a path; os.path.exists accepts every text.
    sources = [Path(source) for source in reads if source is not None and os.path.exists(source)]
    for source in sources:
        if (path.exists() and path.samefile(source)) or path.resolve() in source.resolve().parents:
            raise UserError(f"{place}: would replace {source}, which this command reads; {_ELSE}")
    return sources


def _foreign(place: str, command: str) -> UserError:
    return UserError(f"{place}: exists, and `{command}` did not write it; {_ELSE}, or replace it with --force")
