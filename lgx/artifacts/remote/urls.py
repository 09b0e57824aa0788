"""Download files of URLs with fsspec into lgx's cache."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lgx.artifacts.remote.checks import (
    BESIDE,
    CONFIG,
    LARGEST,
    WEIGHTS,
    check_content,
    check_digest,
    check_size,
)
from lgx.artifacts.remote.downloads import Fetched, are_allowed, not_here, say
from lgx.artifacts.remote.names import SAFETENSORS, RemoteName, check_url
from lgx.errors import UserError
from lgx.host.cache import cache_root, make_room
from lgx.host.failures import is_full_memory, reason_of
from lgx.host.files import atomic_path
from lgx.host.hub import SECONDS
from lgx.host.locks import changing
from lgx.host.safety import LARGEST_JSON

_VERSIONS = ("ETag", "etag", "Last-Modified", "LastModified", "last_modified", "mtime", "created", "md5", "checksum")
"""Keys by which file systems of fsspec say which version of a file they hold."""


@dataclass(frozen=True)
class _About:
    """What is known of a kept file.

    Attributes:
        url: Where it came from.
        version: How the server called its version; empty where it does not say.
        sha256: Its checksum.
    """

    url: str
    version: str
    sha256: str


class _Absent(UserError):
    """The place does not have the file."""


class _Forbidden(UserError):
    """The place refuses to give the file."""


class _OutOfReach(UserError):
    """The place does not answer."""


def fetch_url(name: RemoteName) -> Fetched:
    """Download a file, or a model folder, unless the cache holds this version.

    A URL that ends in ``.safetensors`` is a file, any other one a folder. A name with a checksum that the cache holds
    asks no server. Without a network the kept copy is read.

    Args:
        name: The URL, with or without a checksum.

    Raises:
        UserError: If it cannot be read, has another checksum, or is no safetensors file.
    """
    url = name.place.rstrip("/")
    check_url(url)
    folder = cache_root() / "sources" / hashlib.sha256(url.encode()).hexdigest()[:32]
    if are_allowed():
        with changing(folder):
            return _fetched(url, folder, name)
    return _fetched(url, folder, name)


def _fetched(url: str, folder: Path, name: RemoteName) -> Fetched:
    is_file = url.endswith(SAFETENSORS)
    path = folder / url.rpartition("/")[2] if is_file else folder
    kept = _kept(path, is_file)
    if kept is not None and (kept.sha256 == name.sha256 or (name.sha256 is None and not are_allowed())):
        _mark_used(path if is_file else path / WEIGHTS)
        return Fetched(path, name.pinned(kept.sha256))
    if not are_allowed():
        raise not_here(name.place)
    try:
        digest = _fetch(url, path, name.sha256) if is_file else _fetch_folder(url, path, name.sha256)
    except _OutOfReach as error:
        kept = _kept(path, is_file)
        if kept is None or name.sha256 not in (None, kept.sha256):
            raise
        say(f"{error}; the copy in the cache is read")
        digest = kept.sha256
    return Fetched(path, name.pinned(digest))


def _kept(path: Path, is_file: bool) -> _About | None:
    """What is known of the weights of a kept file or of a folder that is complete; None otherwise."""
    if is_file or _read_about(path / CONFIG) is not None:
        return _read_about(path if is_file else path / WEIGHTS)
    return None


def _fetch_folder(url: str, folder: Path, expected: str | None) -> str:
    """Bring a model folder into the cache; the checksum of its weights.

    The configuration comes last: where it is there, the folder is complete.
    """
    before = _read_about(folder / WEIGHTS)
    digest = _fetch(f"{url}/{WEIGHTS}", folder / WEIGHTS, expected)
    if before is None or before.sha256 != digest:
        _about_file(folder / CONFIG).unlink(missing_ok=True)
    for other in BESIDE:
        try:
            _fetch(f"{url}/{other}", folder / other, None)
        except (_Absent, _Forbidden):  # stores whose folders cannot be listed answer 403 for a file that is not there
            (folder / other).unlink(missing_ok=True)
            _about_file(folder / other).unlink(missing_ok=True)
    _fetch(f"{url}/{CONFIG}", folder / CONFIG, None)
    return digest


def _fetch(url: str, file: Path, expected: str | None) -> str:
    """Bring one file into the cache unless this version is there; its checksum."""
    about = _read_about(file)
    if about is not None and about.sha256 == expected:
        _mark_used(file)
        return about.sha256
    system, path = _opened(url)
    try:
        info: dict[str, Any] = system.info(path)
    except Exception as error:
        raise _explained(url, error) from error
    version = next((f"{key} {info[key]}" for key in _VERSIONS if info.get(key)), "")
    if about is not None and version and about.version == version and expected is None:
        _mark_used(file)
        return about.sha256
    check_size(info.get("size"), url)
    digest = _download(system, path, url, file, expected)
    _write_about(file, _About(url, version, digest))
    return digest


def _mark_used(file: Path) -> None:
    """Note that a kept file was used now; a cache that several users share may be read-only."""
    with suppress(OSError):
        file.touch()


def _download(system: Any, path: str, url: str, file: Path, expected: str | None) -> str:
    from fsspec.callbacks import Callback

    is_weights = file.name.endswith(SAFETENSORS)
    most = LARGEST if is_weights else LARGEST_JSON

    class Limit(Callback):
        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            if self.value > most:
                raise UserError(f"{url}: is larger than {most:,} bytes; download it, and give its path")

    with atomic_path(file) as temporary:
        try:
            system.get_file(path, str(temporary), callback=Limit())
        except Exception as error:
            raise _explained(url, error) from error
        digest = check_digest(temporary, expected, url)
        if is_weights:
            check_content(temporary, url)
            make_room(file.parents[1], SAFETENSORS.removeprefix("."), temporary.stat().st_size)
    return digest


def _opened(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs

    options: dict[str, Any] = {}
    try:
        if url.startswith(("http://", "https://")):
            from aiohttp import ClientTimeout

            timeout = ClientTimeout(total=None, sock_connect=SECONDS, sock_read=6 * SECONDS)
            options["client_kwargs"] = {"timeout": timeout, "trust_env": True}
        found: tuple[Any, str] = url_to_fs(url, **options)
        return found
    except ImportError as error:
        raise UserError(f"{url}: a library is missing ({reason_of(error)}); install it with pip") from error
    except Exception as error:
        raise UserError(f"{url}: fsspec cannot open it ({reason_of(error)}); check the beginning of the URL") from error


def _explained(url: str, error: Exception) -> Exception:
    """One sentence for what a file system raises."""
    if isinstance(error, UserError) or is_full_memory(error):
        return error
    if isinstance(error, FileNotFoundError) and error.__cause__ is not None:  # HTTP of fsspec says so of every error
        error = error.__cause__ if isinstance(error.__cause__, Exception) else error
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return _Absent(f"{url}: no such file; check the URL")
    if isinstance(error, PermissionError) or (isinstance(status, int) and 0 < status < 500):
        kind = _Forbidden if isinstance(error, PermissionError) or status == 403 else UserError
        answer = "no" if status is None else status
        return kind(f"{url}: the server answers {answer} ({reason_of(error)}); check the URL and your rights")
    return _OutOfReach(f"{url}: cannot be reached ({reason_of(error)}); download it elsewhere, and give its path")


def _about_file(file: Path) -> Path:
    return file.with_name(f".{file.name}.json")


def _read_about(file: Path) -> _About | None:
    """What is known of a kept file; None where there is none."""
    try:
        about = _About(**json.loads(_about_file(file).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return about if file.is_file() else None


def _write_about(file: Path, about: _About) -> None:
    with atomic_path(_about_file(file)) as temporary:
        temporary.write_text(json.dumps(asdict(about)), encoding="utf-8")
