"""Write files and folders atomically, and walk through folders."""

import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lgx.errors import UserError

_LONGEST_WRITE = 24 * 3600
"""Age in seconds from which a temporary file counts as left by a killed process."""


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
        if (real := os.path.realpath(place)) in seen:
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
