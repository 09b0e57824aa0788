"""Sources: find the local file, folder or model that a user names.

A command line, a configuration of ``lgx fit`` and the Python API call :func:`resolve` once for each source. All other
code reads :attr:`Source.place` and never asks a server. The Hugging Face hub is read through its client's cache.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfUri, hf_hub_download, parse_hf_uri, snapshot_download
from huggingface_hub.errors import HfUriError, LocalEntryNotFoundError

from lgx.artifacts.checkpoints import weights_of_run
from lgx.artifacts.safetensors_files import read_header, read_metadata
from lgx.artifacts.source_names import (
    BESIDE,
    CONFIG,
    FINAL_LEARNGENE,
    HUB,
    LEARNGENE,
    SAFETENSORS,
    TIMM,
    WEIGHTS,
    WEIGHTS_SUFFIXES,
    is_remote,
)
from lgx.core.readable import some
from lgx.errors import UserError
from lgx.host import launcher
from lgx.host.failures import reason_of
from lgx.host.safety import parse_json

Kind = Literal["learngene", "checkpoint", "weights", "folder", "timm", "name"]
"""Kind of a place; ``name`` is a pretrained model of timm."""

_names: dict[str, str] = {}
"""Place -> name, of the sources that this process has resolved."""


@dataclass(frozen=True)
class Source:
    """A source that was found on this machine.

    Attributes:
        name: What records hold: a name on the hub has the commit.
        place: Path, or the name of a model of timm, see :func:`kind_of`.
    """

    name: str
    place: str

    @property
    def weights(self) -> Path | None:
        """The file of weights: itself, or the file in a model folder; None if there is none."""
        names = ("model.safetensors", "pytorch_model.bin")
        files = [os.path.join(self.place, name) for name in names] if os.path.isdir(self.place) else [self.place]
        # os.path refuses no text, unlike pathlib: an option that is not a source may be too long for a path
        files = [file for file in files if os.path.isfile(file)]
        return next((Path(file) for file in files if file.endswith(WEIGHTS_SUFFIXES) or is_learngene(file)), None)


def is_learngene(place: str) -> bool:
    """Whether a file is a learngene: by its metadata under any name; where it is missing or damaged, by its name."""
    return place.endswith(LEARNGENE) or (os.path.isfile(place) and "lgx" in read_metadata(place))


def kind_of(place: str) -> Kind:
    """Kind of a source's place: a learngene by its content, anything else by its name."""
    if place.startswith(TIMM):
        return "timm"
    if is_learngene(place):
        return "learngene"
    if place.endswith(".ckpt"):
        return "checkpoint"
    if os.path.isdir(place):
        return "folder"
    return "weights" if place.endswith(WEIGHTS_SUFFIXES) else "name"


def resolve(text: str, download: bool = True) -> Source:
    """Find the current version of a source; download it if needed.

    Args:
        text: ``hf://org/name``, with ``@revision`` and ``/file`` if needed. URLs are refused. Every other text is its
            own name and place.
        download: Whether the hub may be asked; otherwise only what was downloaded before is found.
    """
    if is_remote(text):
        if not text.startswith(HUB):  # the rest may hold a password, or a token
            raise UserError(
                f"source {text.partition(':')[0]}://…: URLs are not read; download the file with a browser, curl or "
                f"`hf download` and give its path, or give its name on the hub, hf://ORGANIZATION/NAME"
            )
        source = _fetched(text, download)
        if source.name != text and download and launcher.rank() == 0:
            print(f"source    {text} is {source.name}", file=sys.stderr)
    elif os.path.isdir(text):
        source = Source(text, place_in_run(text))
    else:
        return Source(text, text)
    _names[source.place] = source.name
    return source


def place_in_run(source: str) -> str:
    """The file to read of a run's folder; every other source is its own place.

    Returns:
        The learngene file if it contains more than one network, otherwise the checkpoint with the run's weights.
    """
    file = str(Path(source, FINAL_LEARNGENE))
    about = parse_json(read_metadata(file).get("lgx", "{}"), file, "train it again")
    is_several = isinstance(about, dict) and about.get("content", "network") != "network"
    return file if is_several else weights_of_run(source)


def resolve_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Find the sources among options, see :func:`resolve`.

    Returns:
        The options with the names of their sources, and with their places.
    """
    sources = {key: resolve(value) for key, value in options.items() if isinstance(value, str)}
    names, places = ({key: getattr(sources[key], part) for key in sources} for part in ("name", "place"))
    return {**options, **names}, {**options, **places}


def resolve_kept(text: str) -> Source:
    """The source without downloads; if it is not on this machine, its place is its name."""
    try:
        return resolve(text, download=False)
    except UserError:
        return Source(text, text)


def recorded_name(place: str) -> str:
    """The name of a place for records: the name that this process resolved to it, or the place itself."""
    return _names.get(place, place)


def _fetched(text: str, download: bool) -> Source:
    """Find a learngene, a weights file or a model folder in the cache of the hub's client, or download it.

    A cached file at a full commit hash needs no server. If the hub cannot be reached, the cached version is read.

    Args:
        text: Name on the hub. Without a file: the repository's only learngene, otherwise the repository must be a
            model folder.
        download: Whether the hub may be asked.

    Returns:
        The file or folder, with its name at its commit.
    """
    name = _parsed(text)
    if not download:
        try:
            snapshot = _snapshot(name, local_files_only=True)
        except LocalEntryNotFoundError:
            raise UserError(f"{text}: has not been downloaded yet; `lgx init --source {text} …` does") from None
    else:
        try:
            snapshot = _snapshot(name)
        except Exception as error:  # the errors of the client's HTTP library are not those of the client
            reason = getattr(error, "server_message", None) or reason_of(error)
            raise UserError(
                f"{text}: the Hugging Face hub does not give it ({reason}); check the name, or try again later; "
                f"for what is private log in with `hf auth login`, or set HF_TOKEN"
            ) from error
    path = _chosen(snapshot / name.path_in_repo, text)
    read_header(path if path.is_file() else path / WEIGHTS, text)
    return Source(f"{HUB}{name.id}@{path.relative_to(snapshot.parent).as_posix()}", str(path))


def _parsed(text: str) -> HfUri:
    """Read ``hf://org/name@revision/file``; all but organization and name may be left out."""
    try:
        name = parse_hf_uri(text)
    except HfUriError:
        name = None
    if name is None or name.type != "model" or ".." in f"{name.revision}/{name.path_in_repo}":
        raise UserError(f"{text[:300]}: expected hf://ORGANIZATION/NAME, then @REVISION and /FILE if needed")
    if "." in name.path_in_repo.rpartition("/")[2] and not name.path_in_repo.endswith(SAFETENSORS):
        raise UserError(f"{text}: only safetensors files are read from elsewhere; give one that ends in .safetensors")
    return name


def _snapshot(name: HfUri, local_files_only: bool = False) -> Path:
    """The folder of the name's commit in the client's cache, with the file, or with the files of a model folder."""
    options: dict[str, Any] = {"revision": name.revision, "local_files_only": local_files_only, "library_name": "lgx"}
    inside = name.path_in_repo
    if inside.endswith(SAFETENSORS):
        return Path(hf_hub_download(name.id, inside, **options)).parents[inside.count("/")]
    folder = f"{inside}/" if inside else ""
    wanted = [folder + file for file in (f"*{LEARNGENE}", WEIGHTS, CONFIG, *BESIDE)]
    return Path(snapshot_download(name.id, allow_patterns=wanted, ignore_patterns=f"{folder}*/*", **options))


def _chosen(place: Path, text: str) -> Path:
    """The file to read, or the model folder."""
    if place.is_file():
        return place
    learngenes = [file.name for file in place.glob(f"*{LEARNGENE}")]
    if len(learngenes) > 1:
        raise UserError(f"{text}: holds {len(learngenes)} learngenes ({some(learngenes)}); add /FILE to the name")
    if not learngenes and not all((place / file).is_file() for file in (WEIGHTS, CONFIG)):
        raise UserError(
            f"{text}: holds no *{LEARNGENE}, and no {CONFIG} with {WEIGHTS}; pickled weights are not read from "
            f"elsewhere"
        )
    return place / learngenes[0] if learngenes else place
