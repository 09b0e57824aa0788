"""Write files and folders atomically and only where nothing of others lies; walk through folders."""

import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lgx.errors import UserError

_LONGEST_WRITE = 24 * 3600
"""Age in seconds from which a temporary file counts as left by a killed process."""


def digest_of(file: str | Path) -> str:
    """SHA-256 of a file, 16 digits."""
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` if the block succeeds, else remove it.

    It works for a file and for a folder, which the block creates. Missing parent folders are created. An existing file
    or folder is replaced. Temporary files of ``path`` that killed processes left are removed after a day.

    Args:
        path: Path of the finished file or folder.

    Yields:
        The temporary path to write to.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        yield temporary
        if path.is_dir():
            _replace_folder(path, temporary, temporary.with_suffix(".old"))
        else:
            os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write {path}: {reason}; choose a writable place with enough free space") from error
    except UserError as error:
        if str(temporary) not in str(error):
            raise
        raise type(error)(str(error).replace(str(temporary), str(path))) from error
    finally:
        _remove(temporary)


def walk(folder: Path, onerror: Callable[[OSError], None] | None = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """``os.walk`` that also follows links to folders, except to folders above ``folder`` or already read."""
    seen = {str(above) for above in Path(os.path.realpath(folder)).parents}
    for place, inner, names in os.walk(folder, onerror=onerror, followlinks=True):
        inner.sort()  # so that every file system reads the same one of two links to a folder
        real = os.path.realpath(place)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        yield place, inner, names


def _replace_folder(path: Path, new: Path, aside: Path) -> None:
    """Replace a folder by ``new``; the old folder is moved aside first, and back if the replacement fails."""
    os.replace(path, aside)
    try:
        os.replace(new, path)
    except OSError:
        os.replace(aside, path)
        raise
    _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # the parent folder itself may be missing or unreadable
            path.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files of ``path`` whose writers were killed: those of more than a day.

    An old folder that was moved aside is kept while ``path`` does not exist: it is the only copy.
    """
    pattern = re.compile(rf"\.{re.escape(path.name)}\.\w{{8}}\.(?:tmp|old)")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name) and (entry.name.endswith(".tmp") or path.exists()):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > _LONGEST_WRITE:
                    _remove(Path(entry.path))


_ELSE = "choose another place"
_MARK = 4096
"""Bytes at the beginning of a file that are searched for its mark."""


def check_output(
    path: str | Path,
    command: str,
    is_ours: Callable[[Path], bool],
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
        is_ours: Whether this command wrote what exists.
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
        unknown = sorted(held - {*names})
        if unknown:
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
    if (names is not None and not held) or is_ours(path):
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
