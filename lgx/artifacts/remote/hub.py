"""Download learngenes and model folders from the Hugging Face hub into the cache of its own client."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import LocalEntryNotFoundError

from lgx.artifacts.remote.checks import BESIDE, CONFIG, WEIGHTS, check_content, check_digest, check_kind, check_size
from lgx.artifacts.remote.downloads import Fetched, are_allowed, not_here, say
from lgx.artifacts.remote.hub_errors import OutOfReach, check_hub, hub_errors
from lgx.artifacts.remote.names import LEARNGENE, SAFETENSORS, HubName, RemoteName
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.hub import SECONDS, limit_waiting

_MAIN = "main"
_LISTED = 5

_known: dict[tuple[str, HubName], Path] = {}
"""Cache and folder at a whole commit -> its path, of those that this process has read; they never change."""


def hub_api() -> HfApi:
    """The hub's client; it finds the endpoint and the token in the environment, or where the user logged in."""
    limit_waiting()
    return HfApi(library_name="lgx", library_version=__version__)


def fetch_hub(name: RemoteName) -> Fetched:
    """Download a learngene, a weights file or a model folder, unless the cache of the hub's client holds it.

    A file at a whole commit that the cache holds asks no server. Without a network the cached version is read.

    Args:
        name: ``hf://org/name@revision/file`` with or without a checksum. Without a file it is the repository's only
            learngene, else the repository must be a model folder.

    Returns:
        The file or folder, and its name with the commit.

    Raises:
        UserError: If the hub is out of reach and the cache has no copy; if repository, revision or file do not exist
            or may not be read; if the file is no safetensors file or has another checksum.
    """
    hub = HubName.parse(name.place)
    if hub.inside and not hub.inside.endswith(SAFETENSORS) and "." in hub.inside.rpartition("/")[2]:
        check_kind(hub.inside, name.place)
    path = (_cached_file(hub) or _known.get((constants.HF_HUB_CACHE, hub))) if hub.is_commit else None
    if path is None or not path.exists():
        path = _online(hub, name.place) if are_allowed() else _cached(hub)
    if path is None:
        raise not_here(name.place)
    weights = path if path.is_file() else path / WEIGHTS
    if name.sha256 is not None:
        check_digest(weights, name.sha256, name.place)
    commit, inside = _place_in_cache(path)
    exact = hub.at(commit, inside)
    if path.is_dir():
        _known[constants.HF_HUB_CACHE, exact] = path
    return Fetched(path, str(replace(name, place=str(exact))))


def _online(hub: HubName, place: str) -> Path:
    try:
        check_hub(place)
        with hub_errors(place):
            info = hub_api().model_info(hub.repository, revision=hub.revision, timeout=SECONDS, files_metadata=True)
            sizes = {entry.rfilename: entry.size for entry in info.siblings or ()}
            first, *others = _chosen(hub, tuple(sizes), place)
            for file in (first, *others):
                check_size(sizes[file], f"{place}/{file}")
            # The first file is asked for by the revision's name: the client then remembers its commit.
            path = _download(hub, first, hub.revision or _MAIN)
            commit, _ = _place_in_cache(path)
            for file in others:
                _download(hub, file, commit)
    except OutOfReach as error:
        if (kept := _cached(hub)) is None:
            raise
        say(f"{error}; the cached copy is read")
        return kept
    check_content(path, place)
    return path.parent if others else path


def _download(hub: HubName, file: str, revision: str) -> Path:
    return Path(hf_hub_download(hub.repository, file, revision=revision, etag_timeout=SECONDS, library_name="lgx"))


def _chosen(hub: HubName, files: Sequence[str], place: str) -> list[str]:
    """The files to download, that with the weights first.

    Raises:
        UserError: If the place holds no learngene and no model folder, or several learngenes.
    """
    if hub.inside.endswith(SAFETENSORS):
        if hub.inside not in files:
            found = [file for file in files if file.endswith(SAFETENSORS)]
            raise UserError(f"{place}: the repository has no such file; it has {_listed(found)}")
        return [hub.inside]
    folder = f"{hub.inside}/" if hub.inside else ""
    here = [file.removeprefix(folder) for file in files if file.startswith(folder)]
    learngenes = [file for file in here if file.endswith(LEARNGENE) and "/" not in file]
    if len(learngenes) > 1:
        raise UserError(f"{place}: holds {len(learngenes)} learngenes ({_listed(learngenes)}); add /FILE to the name")
    if learngenes:
        return [folder + learngenes[0]]
    if {WEIGHTS, CONFIG} <= {*here}:
        return [folder + file for file in (WEIGHTS, CONFIG, *BESIDE) if file in here]
    held = f"it holds {_listed(here)}" if here else "it is empty"
    reason = "; pickled weights are not read from elsewhere" if "pytorch_model.bin" in here else ""
    raise UserError(f"{place}: holds no *{LEARNGENE}, and no {CONFIG} with {WEIGHTS}; {held}{reason}")


def _listed(files: Sequence[str]) -> str:
    return ", ".join([*files[:_LISTED], *(["..."] if len(files) > _LISTED else [])]) or "none"


def _cached_file(hub: HubName) -> Path | None:
    """The file that a name gives, if the cache holds it."""
    if not hub.inside.endswith(SAFETENSORS):
        return None
    found = try_to_load_from_cache(hub.repository, hub.inside, revision=hub.revision or _MAIN)
    return Path(found) if isinstance(found, str) else None


def _cached(hub: HubName) -> Path | None:
    """The file or folder of a name as far as the cache holds it; None if not."""
    if hub.inside.endswith(SAFETENSORS):
        return _cached_file(hub)
    try:
        snapshot = Path(snapshot_download(hub.repository, revision=hub.revision or _MAIN, local_files_only=True))
        files = [file.relative_to(snapshot).as_posix() for file in snapshot.rglob("*") if file.is_file()]
        first, *others = _chosen(hub, files, str(hub))
    except (LocalEntryNotFoundError, UserError):
        return None
    return (snapshot / first).parent if others else snapshot / first


def _place_in_cache(path: Path) -> tuple[str, str]:
    """Commit and name in the repository of a file or folder in the client's cache.

    Its path ends with ``models--<repository>/snapshots/<commit>/<name>``; a name may hold ``snapshots``, too.
    """
    parts = path.parts
    at = parts.index("snapshots", max(i for i, part in enumerate(parts) if part.startswith("models--")))
    return parts[at + 1], "/".join(parts[at + 2 :])
