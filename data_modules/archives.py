"""Unpack zip and tar files of a user safely: no file outside the target folder, and no archive bomb."""

import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from lgx.core.files import atomic_path
from lgx.errors import UserError

EXPANSION = 200
"""Largest allowed ratio of an archive's content to its size. Texts shrink to a tenth, images hardly at all."""


def unzip(archives: Iterable[Path], folder: Path) -> None:
    """Unpack zip files into one new folder, all or nothing.

    Args:
        archives: The zip files.
        folder: The folder to make.

    Raises:
        UserError: If an archive is damaged or a bomb, or a member would be written outside ``folder`` or is a link.
    """
    with atomic_path(folder) as temporary:
        temporary.mkdir()
        for path in archives:
            with open_zip(path) as archive:
                archive.extractall(temporary)


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip file and check that it is safe to unpack.

    Args:
        path: The file.

    Raises:
        UserError: If it is damaged or a bomb, or a member would be written outside or is a link; also if the caller
            finds it damaged while reading it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            for member in members:
                check_name(path, member.filename)
                # Only the upper half of the attributes is a mode, and only if a Unix system wrote the file.
                if stat.S_ISLNK(member.external_attr >> 16):
                    raise UserError(f"{path}: its member {member.filename!r} is a symbolic link; do not trust it")
            check_size(path, sum(member.file_size for member in members))
            yield archive
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as error:
        raise UserError(f"{path}: a damaged or encrypted zip file ({error}); fetch it again") from error


@contextmanager
def reading_tar(path: Path) -> Iterator[None]:
    """Turn every error that a damaged tar file causes into one sentence.

    Args:
        path: The file, for the message.
    """
    try:
        yield
    except (
        tarfile.TarError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        gzip.BadGzipFile,
        ValueError,
        RecursionError,
    ) as error:
        raise UserError(f"{path}: a damaged archive ({error}); fetch it again") from error


def check_tar(path: Path) -> None:
    """Check a tar file that another package will unpack.

    Raises:
        UserError: If it is damaged or a bomb, or a member would be written outside, is a link or a device.
    """
    total = 0
    with reading_tar(path), tarfile.open(path, "r|*") as tar:
        for member in tar:
            check_member(path, member)
            total += member.size
            check_size(path, total)


def check_member(path: Path, member: tarfile.TarInfo) -> None:
    """Refuse a member of a tar file that is not an ordinary file or folder inside it.

    Raises:
        UserError: If it would be written outside, or is a link or a device.
    """
    check_name(path, member.name)
    if not (member.isreg() or member.isdir()):
        raise UserError(f"{path}: its member {member.name!r} is a link or a device; do not trust it")


def check_name(path: Path, name: str) -> None:
    """Refuse a member that would be written outside the folder into which its archive is unpacked.

    Args:
        path: The archive, for the message.
        name: Name of the member.

    Raises:
        UserError: If it would.
    """
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name[:1] in ("/", "\\") or ".." in parts or ":" in "".join(parts[:1]):
        raise UserError(f"{path}: its member {name!r} would be written outside the folder; do not trust it")


def check_size(path: Path, total: int) -> None:
    """Refuse an archive that unpacks to far more than itself.

    Args:
        path: The archive.
        total: Size of its content in bytes, as its headers state it.

    Raises:
        UserError: If the content is too large for a real set.
    """
    size = path.stat().st_size
    if total > EXPANSION * max(size, 2**20):
        raise UserError(
            f"{path}: its {size:,} bytes would unpack to more than {EXPANSION} times as many bytes; do not trust it"
        )
