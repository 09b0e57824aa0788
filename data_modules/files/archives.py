"""Unpack zip and tar files of a user safely: no file outside the target folder, and no archive bomb."""

import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Literal

from lgx.errors import UserError
from lgx.host.files import atomic_path

EXPANSION = 200
"""Largest allowed ratio of an archive's content to its size. Texts shrink to a tenth, images hardly at all."""

LARGEST_HEADER = 2**18
"""Largest tar header that replaces a name or adds facts, in bytes; a path has at most 4,096."""

_ADDED_HEADERS = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
_ZIP_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""With other methods, zipfile decompresses a whole block at once, and 64 KiB may expand to gigabytes."""

_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, ValueError)
"""Errors that a damaged archive causes."""


class BoundedInfo(tarfile.TarInfo):
    """Header of a member of a tar file; tarfile would read a header of any size into memory.

    To be given to tarfile as ``tarinfo``.

    Raises:
        ValueError: If it is larger than :data:`LARGEST_HEADER`, or describes the holes of a sparse file, which may be
            any number.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "BoundedInfo":
        """Read a block; called before the announced header is read."""
        info = super().frombuf(buf, encoding, errors)
        if info.type in _ADDED_HEADERS and not 0 <= info.size <= LARGEST_HEADER:
            raise ValueError(f"a header of {info.size:,} bytes, more than {LARGEST_HEADER:,}")
        if info.type == tarfile.GNUTYPE_SPARSE:
            raise ValueError("a sparse file")
        return info

    def _proc_gnusparse_10(self, *arguments: object) -> None:
        """Called by tarfile for the sparse format of newer versions of GNU tar."""
        raise ValueError("a sparse file")


def unzip(archives: Iterable[Path], folder: Path) -> None:
    """Unpack zip files into one new folder, all or nothing.

    Raises:
        UserError: If an archive is damaged or a bomb, or a member would be written outside ``folder`` or is a link.
    """
    with atomic_path(folder) as temporary:
        temporary.mkdir()
        for path in archives:
            with open_zip(path) as archive:
                archive.extractall(temporary)


def link(source: Path, folder: Path) -> None:
    """Make ``folder`` a link to ``source``; it may be an empty folder before."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        folder.rmdir()
    folder.symlink_to(source.resolve(), target_is_directory=True)


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip file and check that it is safe to unpack.

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
                if member.compress_type not in _ZIP_METHODS:
                    raise UserError(f"{path}: its member {member.filename!r} is not deflated; zip it again")
            check_size(path, sum(member.file_size for member in members))
            yield archive
    except (*_DAMAGE, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path}: a damaged or encrypted zip file ({error}); fetch it again") from error


@contextmanager
def open_tar(path: Path, file: io.BufferedReader) -> Iterator[tarfile.TarFile]:
    """Open a tar file, or one that gzip compressed, as a stream.

    Other compressions are not read: a few bytes of bzip2 may expand to gigabytes at once, and the header of an xz file
    states how much memory is taken. ``path`` is the file for messages, ``file`` is it or a member of it, opened.

    Raises:
        UserError: If it is damaged or has a header of unreasonable size; also if the caller finds it damaged.
    """
    mode: Literal["r|gz", "r|"] = "r|gz" if file.peek(2)[:2] == b"\x1f\x8b" else "r|"
    try:
        with tarfile.open(fileobj=file, mode=mode, tarinfo=BoundedInfo) as tar:
            yield tar
    except (*_DAMAGE, RecursionError) as error:
        raise UserError(f"{path}: a damaged archive ({error}); fetch it again") from error


def members_of(path: Path, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of a tar file, in order.

    Raises:
        UserError: If the content is too large for a real set, or the headers, which stay in memory, are.
    """
    content = 0
    for member in tar:
        if (headers := member.offset_data - content) > 2**26 + 4 * path.stat().st_size:
            raise UserError(f"{path}: has {headers:,} bytes of headers, more than its files need; do not trust it")
        content += -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE if member.isreg() else 0
        check_size(path, content)
        yield member


def check_tar(path: Path) -> None:
    """Check a tar file that another package will unpack.

    Raises:
        UserError: If it is damaged or a bomb, or a member would be written outside, is a link or a device.
    """
    with path.open("rb") as file, open_tar(path, file) as tar:
        for member in members_of(path, tar):
            check_member(path, member)


def check_member(path: Path, member: tarfile.TarInfo) -> None:
    """Refuse a member of a tar file that would be written outside, or is a link or a device."""
    check_name(path, member.name)
    if not (member.isreg() or member.isdir()):
        raise UserError(f"{path}: its member {member.name!r} is a link or a device; do not trust it")


def check_name(path: Path, name: str) -> None:
    """Refuse a member that would be written outside the folder into which its archive is unpacked."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name[:1] in ("/", "\\") or ".." in parts or ":" in "".join(parts[:1]):
        raise UserError(f"{path}: its member {name!r} would be written outside the folder; do not trust it")


def check_size(path: Path, total: int) -> None:
    """Refuse an archive that unpacks to far more bytes, ``total``, than a real set of its size."""
    size = path.stat().st_size
    if total > EXPANSION * max(size, 2**20):
        raise UserError(
            f"{path}: its {size:,} bytes would unpack to more than {EXPANSION} times as many bytes; do not trust it"
        )
