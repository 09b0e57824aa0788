"""Download safetensors files by their URLs, with fsspec, into lgx's cache."""

import hashlib
import json
import re
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fsspec.callbacks import Callback
from fsspec.core import url_to_fs

from lgx.artifacts.safety import check_digest, check_intact, check_size, digest_of
from lgx.artifacts.source_names import SAFETENSORS
from lgx.errors import UserError
from lgx.host.cache import cache_root, make_room
from lgx.host.failures import is_full_memory, reason_of
from lgx.host.files import atomic_path
from lgx.host.hub import SECONDS
from lgx.host.locks import changing

_SECRET = re.compile(r"signature|^sig$|token|secret|password|credential|api_?key|access_?key", re.IGNORECASE)
_VERSIONS = ("ETag", "etag", "Last-Modified", "LastModified", "last_modified", "mtime", "created", "md5", "checksum")
"""Keys by which file systems of fsspec say which version of a file they hold."""


class _OutOfReach(UserError):
    """The server does not answer."""


def fetch_url(url: str, sha256: str | None, download: bool) -> tuple[Path, str]:
    """Find the file of a URL in the cache, or download it. A kept file is read if its checksum is the one it had.

    A URL with a checksum that the cache holds asks no server. Without a network the kept copy is read.

    Args:
        url: The URL.
        sha256: The file's checksum; None accepts any.
        download: Whether the server may be asked.

    Returns:
        The file, and its checksum.
    """
    _check_url(url)
    if not url.endswith(SAFETENSORS):
        raise UserError(
            f"{url}: a URL names one file that ends in {SAFETENSORS}; read a model folder from the hub, or download it"
        )
    folder = cache_root() / "sources" / hashlib.sha256(url.encode()).hexdigest()[:32]
    path = folder / url.rpartition("/")[2]
    with changing(folder) if download else nullcontext():  # of several processes, the first one downloads
        kept, version = _kept(path)
        is_wanted = kept == sha256 if sha256 or download else True
        if kept is None or not is_wanted:
            if not download:
                raise UserError(f"{url}: has not been downloaded yet; `lgx init --source {url} …` does")
            try:
                kept = _download(url, path, sha256, (kept, version))
            except _OutOfReach as error:
                if kept is None or sha256 is not None:
                    raise
                print(f"{error}; the copy in the cache is read", file=sys.stderr)
        with suppress(OSError):  # a cache that several users share may be read-only
            path.touch()  # says that it was used
    return path, kept


def _kept(path: Path) -> tuple[str | None, str]:
    """Checksum and server's version of a kept file; None where there is none, or it was damaged."""
    try:
        about = json.loads(_about(path).read_text(encoding="utf-8"))
        digest = digest_of(path)
        return (digest, about["version"]) if about["sha256"] == digest else (None, "")
    except (OSError, ValueError, TypeError, KeyError):
        return None, ""


def _download(url: str, path: Path, expected: str | None, kept: tuple[str | None, str]) -> str:
    """Bring a file into the cache unless this version is kept; its checksum."""

    class Limit(Callback):
        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            check_size(self.value, url)

    try:
        system, inner = _opened(url)
        info = system.info(inner)
        version = next((f"{key} {info[key]}" for key in _VERSIONS if info.get(key)), "")
        if kept[0] is not None and expected is None and kept[1] == version != "":
            return kept[0]
        check_size(info.get("size"), url)  # file systems of this machine do not call the limit
        with atomic_path(path) as temporary:
            system.get_file(inner, str(temporary), callback=Limit())
            digest = check_digest(temporary, expected, url)
            check_intact(temporary, url)
            make_room(path.parents[1], SAFETENSORS.removeprefix("."), temporary.stat().st_size)
    except Exception as error:
        if is_full_memory(error):
            raise
        raise _explained(url, error) from error
    with atomic_path(_about(path)) as temporary:
        temporary.write_text(json.dumps({"url": url, "version": version, "sha256": digest}), encoding="utf-8")
    return digest


def _opened(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    options: dict[str, Any] = {}
    if url.startswith(("http://", "https://")):
        from aiohttp import ClientTimeout

        timeout = ClientTimeout(total=None, sock_connect=SECONDS, sock_read=6 * SECONDS)
        options["client_kwargs"] = {"timeout": timeout, "trust_env": True}
    found: tuple[Any, str] = url_to_fs(url, **options)
    return found


def _explained(url: str, error: Exception) -> UserError:
    """One sentence for what fsspec raises."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, ImportError):
        return UserError(f"{url}: a library is missing ({reason_of(error)}); install it with pip")
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # HTTP of fsspec says so of every error
    status = getattr(error, "status", 404 if isinstance(error, FileNotFoundError) else 0)
    if 0 < status < 500 or isinstance(error, PermissionError | ValueError):
        answer = {404: "no such file", 0: reason_of(error)}.get(status, f"the server answers {status}")
        return UserError(f"{url}: {answer}; check the URL and your rights")
    return _OutOfReach(f"{url}: cannot be reached ({reason_of(error)}); download it elsewhere, and give its path")


def _about(path: Path) -> Path:
    return path.with_name(f".{path.name}.json")


def _check_url(url: str) -> None:
    """Refuse a URL with a password, a token or a signature: records of runs and model folders would store it."""
    for link in url.split("::"):  # fsspec chains URLs: simplecache::https://host/file
        try:
            parts = urlsplit(link)
        except ValueError as error:
            raise UserError(f"{link.partition('://')[0]}://…: not a valid URL ({error})") from error
        wrong = next((key for key, _ in parse_qsl(parts.query, keep_blank_values=True) if _SECRET.search(key)), None)
        user, at, host = parts.netloc.rpartition("@")
        if ":" in user:
            wrong = "a password"
        elif at and parts.scheme in ("http", "https"):  # for other systems a user's name is no secret
            wrong = "a user or token"
        if wrong is not None:
            raise UserError(
                f"{parts.scheme}://{host}{parts.path[:200]}: the URL holds {wrong}, which records would store; "
                f"download the file and give its path"
            )
