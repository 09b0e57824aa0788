"""Which existing files and folders a command may replace.

A command replaces what it wrote itself: files say of themselves which command wrote them. With ``--force`` it also
replaces what another command or program wrote, but never what it reads, and never a folder with unknown files. The
checks come before the command computes anything.
"""

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from lgx.errors import UserError

_ELSE = "choose another place"
_MARK = 4096
"""Bytes at the beginning of a file, among which its mark is looked for."""
_LINE = 2**24
"""Most bytes of a first line."""


def check_file(
    path: str | Path,
    command: str,
    is_own: Callable[[Path], bool],
    *,
    force: bool = False,
    reads: Iterable[str | Path | None] = (),
    option: str = "--out",
) -> None:
    """Refuse to write a file over one that the command did not write, or reads.

    Args:
        path: The file to write; it need not exist.
        command: What the user calls the command, e.g. ``lgx embed``.
        is_own: Whether this command wrote an existing file.
        force: Whether files of other commands and programs may be replaced.
        reads: What the command reads: files and folders. Names of other things and None are ignored.
        option: The option that names the file, for the message.

    Raises:
        UserError: If the place is taken.
    """
    path, place = Path(path), _place(option, path)
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise UserError(f"{place}: is a folder, expected a file; {_ELSE}")
    if path.exists() and not path.is_file():
        raise UserError(f"{place}: is a device or a pipe, expected a regular file; {_ELSE}")
    sources = _existing(reads)
    _check_not_read(path, place, sources)
    if is_own(path):
        return
    if source := next((source for source in sources if source.is_dir() and source.resolve() in _parents(path)), None):
        raise UserError(f"{place}: belongs to {source}, which this command reads; {_ELSE}")
    _check_own(place, command, False, force)


def check_folder(
    path: str | Path,
    command: str,
    is_own: Callable[[Path], bool],
    content: tuple[str, Collection[str]],
    *,
    force: bool = False,
    reads: Iterable[str | Path | None] = (),
    option: str = "--out",
) -> None:
    """Refuse to replace a folder as a whole if the command did not write it or reads from it.

    A folder with unknown files, the current folder and its parents are never replaced.

    Args:
        path: The folder to write; it need not exist.
        command: What the user calls the command, e.g. ``lgx init``.
        is_own: Whether this command wrote an existing folder.
        content: What such a folder is called, and the names that it may hold.
        force: Whether such folders of other commands and programs may be replaced.
        reads: What the command reads, see :func:`check_file`.
        option: The option that names the folder, for the message.

    Raises:
        UserError: If the place is taken.
    """
    path, place = Path(path), _place(option, path)
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
    _check_not_read(path, place, _existing(reads))
    _check_own(place, command, not names or is_own(path), force)


def has_mark(path: Path, mark: str) -> bool:
    """Whether a mark stands anywhere in the first bytes of a file; False if the file cannot be read."""
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


def _place(option: str, path: str | Path) -> str:
    """What messages call the place; URLs are refused, and a path with a null character, which no system has."""
    if "\0" in str(path):
        raise UserError(f"{option}: a path cannot hold a null character; {_ELSE}")
    if "://" in str(path):
        raise UserError(f"{option} {path}: {option} names a file or folder of this machine; upload with `lgx push`")
    return f"{option} {path}"


def _existing(reads: Iterable[str | Path | None]) -> list[Path]:
    # A name of timm or of a hub is no path; os.path.exists takes every text.
    return [Path(source) for source in reads if source is not None and os.path.exists(source)]


def _check_not_read(path: Path, place: str, sources: Iterable[Path]) -> None:
    for source in sources:
        same = path.exists() and path.samefile(source)
        if same or path.resolve() in _parents(source):
            raise UserError(f"{place}: this command reads {source}, which it would replace; {_ELSE}")


def _check_own(place: str, command: str, is_own: bool, force: bool) -> None:
    if not is_own and not force:
        raise UserError(f"{place}: exists, and `{command}` did not write it; {_ELSE}, or replace it with --force")


def _parents(path: Path) -> Collection[Path]:
    return path.resolve().parents
