"""The one place where sources from elsewhere become files on this machine."""

from lgx.artifacts.remote.downloads import Fetched, are_allowed, say, without_downloads
from lgx.artifacts.remote.names import HUB, ZOO, RemoteName, is_remote
from lgx.errors import UserError


def located(source: str) -> str:
    """The path of a source on this machine; it is downloaded if necessary.

    Args:
        source: ``hf://org/name``, with ``@revision`` and ``/file`` if needed; a URL that fsspec opens; ``zoo:NAME``;
            each with ``#sha256=…`` if wanted. Other sources are returned as they are.

    Raises:
        UserError: If it cannot be downloaded, is another file than its checksum says, or is no safetensors file.
    """
    return str(_fetched(source).path) if is_remote(source) else source


def pinned(source: str) -> str:
    """The name of exactly the version of a source that is read now: with the commit, or with the checksum.

    What a name without commit and checksum stands for is printed. Other sources are returned as they are.

    Args:
        source: See :func:`located`.

    Raises:
        UserError: See :func:`located`.
    """
    if not is_remote(source):
        return source
    found = _fetched(source).pinned
    if found != source and are_allowed():
        say(f"source    {source} is {found}")
    return found


def cached(source: str) -> str:
    """The path of a source that was downloaded before, else the source itself; no server is asked.

    Args:
        source: See :func:`located`.
    """
    try:
        with without_downloads():
            return located(source)
    except UserError:
        return source


def _fetched(source: str) -> Fetched:
    # The hub's client and fsspec are imported when they are needed.
    name = RemoteName.parse(source)
    if source.startswith(ZOO):
        from lgx.artifacts.zoo import fetch_zoo

        return fetch_zoo(name)
    if source.startswith(HUB):
        from lgx.artifacts.remote.hub import fetch_hub

        return fetch_hub(name)
    from lgx.artifacts.remote.urls import fetch_url

    return fetch_url(name)
