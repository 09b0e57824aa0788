"""Write files and folders atomically."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lgx.errors import UserError


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` if the block succeeds, else remove it.

    It works for a file and for a folder, which the block creates itself. Missing parent folders are created. An
    existing file or folder is replaced.

    Args:
        path: Path of the finished file or folder.

    Yields:
        The temporary path to write to.

    Raises:
        UserError: If the operating system refuses (no permission, disk full, ...); the message names ``path``.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        if path.is_dir():
            _replace_folder(path, temporary)
        else:
            os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot write {path}: {reason}; choose a writable place with enough free space") from error
    except UserError as error:
        if str(temporary) not in str(error):
            raise
        raise type(error)(str(error).replace(str(temporary), str(path))) from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            with suppress(OSError):  # the parent folder itself may be missing or unreadable
                temporary.unlink(missing_ok=True)


def _replace_folder(path: Path, new: Path) -> None:
    """Replace a folder by ``new``; the old folder is moved aside first, and back if the replacement fails."""
    aside = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.old"
    os.replace(path, aside)
    try:
        os.replace(new, path)
    except OSError:
        os.replace(aside, path)
        raise
    if aside.is_symlink():
        aside.unlink()
    else:
        shutil.rmtree(aside, ignore_errors=True)
