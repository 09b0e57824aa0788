"""Sources: find the local file, folder or model that a user names.

A command line, a configuration of ``lgx fit`` and the Python API call :func:`resolve` once for each source. All other
code reads :attr:`Source.place` and never asks a server. The Hugging Face hub is read through its client's cache.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from lgx.artifacts.checkpoints import weights_of_run
from lgx.artifacts.safetensors_files import read_header, read_metadata
from lgx.artifacts.source_names import (
    BESIDE,
    CONFIG,
    FINAL_LEARNGENE,
    FOLDER,
    HUB,
    LEARNGENE,
    SAFETENSORS,
    TIMM,
    WEIGHTS,
    WEIGHTS_SUFFIXES,
    TimmSource,
    is_remote,
    path_of,
    weights_of,
)
from lgx.core.readable import some
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host import launcher
from lgx.host.failures import reason_of
from lgx.host.hub import SECONDS, hub_or_cache
from lgx.host.safety import parse_json

_HUB_NAME = re.compile(
    r"hf://(?P<repository>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>refs/(?:convert|pr)/[^/#]+|[^/#]+))?"
    r"(?:/(?P<inside>[^#]+?))?/?"
)
_MAIN = "main"

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
        if "\0" in self.place or len(self.place) > 4096:  # an option that is not a source may contain any text
            return None
        path = Path(path_of(self.place))
        files = [path / name for name in ("model.safetensors", "pytorch_model.bin")] if path.is_dir() else [path]
        own = (file for file in files if file.suffix in WEIGHTS_SUFFIXES or is_learngene(str(file)))
        return next((file for file in own if file.is_file()), None)


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
    if place.startswith(FOLDER) or os.path.isdir(place):
        return "folder"
    return "weights" if place.endswith(WEIGHTS_SUFFIXES) else "name"


def resolve(text: str, download: bool = True) -> Source:
    """Find the current version of a source; download it if needed.

    Args:
        text: ``hf://org/name``, with ``@revision`` and ``/file`` if needed, or a model of timm whose weights have such
            a name (``timm:NAME,weights=…``). URLs are refused. Every other text is its own name and
            place.
        download: Whether the hub may be asked; otherwise only what was downloaded before is found.
    """
    if (weights := weights_of(text)) and is_remote(weights):
        model, found = TimmSource.parse(text), resolve(weights, download)
        source = Source(replace(model, weights=found.name).name, replace(model, weights=found.place).name)
    elif is_remote(text):
        if not text.startswith(HUB):  # the rest may hold a password, or a token
            raise UserError(
                f"source {text.partition(':')[0]}://…: URLs are not read; download the file with a browser, curl or "
                f"`hf download` and give its path, or give its name on the hub, hf://ORGANIZATION/NAME"
            )
        source = _fetched(HubName.parse(text), download)
        if source.name != text and download and launcher.rank() == 0:
            print(f"source    {text} is {source.name}", file=sys.stderr)
    elif os.path.isdir(text):
        source = Source(text, place_in_run(text))
    else:
        return Source(text, text)
    _names[source.place] = source.name
    return source


def learngene_of(folder: str | Path) -> Path:
    """The learngene file of a run, which may not exist; in runs of earlier versions its name begins with ``best``."""
    file, former = Path(folder, FINAL_LEARNGENE), Path(folder, "best" + LEARNGENE)
    return former if former.is_file() and not file.is_file() else file


def place_in_run(source: str) -> str:
    """The file to read of a run's folder; every other source is its own place.

    Returns:
        The learngene file if it contains more than one network, otherwise the checkpoint with the run's weights.
    """
    file = str(learngene_of(source))
    about = parse_json(read_metadata(file).get("lgx", "{}"), file, "train it again")
    is_several = isinstance(about, dict) and about.get("content", "network") != "network"
    return file if is_several else weights_of_run(source)


def resolve_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Find the sources among options, see :func:`resolve`.

    Returns:
        The options with the names of their sources, and with their places.
    """
    found = {key: resolve(value) for key, value in options.items() if isinstance(value, str)}
    names, places = ({key: getattr(found[key], part) for key in found} for part in ("name", "place"))
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


@dataclass(frozen=True)
class HubName:
    """A place on the Hugging Face hub.

    Attributes:
        repository: ``org/name``.
        revision: Branch, tag or commit; None for the branch ``main``.
        inside: File or folder in the repository; empty for the whole.
    """

    repository: str
    revision: str | None = None
    inside: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``hf://org/name@revision/file``; all but organization and name may be left out."""
        found = _HUB_NAME.fullmatch(text)
        try:
            validate_repo_id(found["repository"] if found else "")
        except HFValidationError:
            found = None
        if found is None or ".." in (found["inside"] or "").split("/"):
            raise UserError(f"{text[:300]}: expected hf://ORGANIZATION/NAME, then @REVISION and /FILE if needed")
        return cls(found["repository"], found["revision"], found["inside"] or "")

    def __str__(self) -> str:
        revision, inside = self.revision and f"@{self.revision}", self.inside and f"/{self.inside}"
        return f"{HUB}{self.repository}{revision or ''}{inside}"


def _fetched(name: HubName, download: bool) -> Source:
    """Find a learngene, a weights file or a model folder in the client's cache, or download it.

    A cached file at a full commit hash needs no server. If the hub cannot be reached, or fails, the cached version is
    read.

    Args:
        name: Place on the hub. Without a file: the repository's only learngene, otherwise the repository must be a
            model folder.
        download: Whether the hub may be asked.

    Returns:
        The file or folder, with its name at its commit.
    """
    place = str(name)
    if "." in name.inside.rpartition("/")[2] and not name.inside.endswith(SAFETENSORS):
        raise UserError(f"{place}: only safetensors files are read from elsewhere; give one that ends in .safetensors")
    is_final = re.fullmatch(r"[0-9a-f]{40}", name.revision or "") and name.inside.endswith(SAFETENSORS)
    path = None
    with suppress(LocalEntryNotFoundError, UserError):
        path = _kept(name)
    if path is None and not download:
        raise UserError(f"{place}: has not been downloaded yet; `lgx init --source {place} …` does")
    if path is None or (download and not is_final):
        path = _newest(name, place, path)
    read_header(path if path.is_file() else path / WEIGHTS, place)
    return Source(str(_name_in_cache(name, path)), str(path))


def _newest(name: HubName, place: str, kept: Path | None) -> Path:
    """The version on the hub; the cached version if the hub cannot be reached or fails."""
    with hub_or_cache(place, "give a local file") as reason:
        if reason and kept is None:
            return _kept(name)
        if not reason:
            try:
                return _downloaded(name, place)
            except UserError:
                raise
            except Exception as error:
                reason = getattr(error, "server_message", None) or reason_of(error)
                if kept is None:
                    raise UserError(
                        f"{place}: the Hugging Face hub does not give it ({reason}); check the name, or try again "
                        f"later; for what is private log in with `hf auth login`, or set HF_TOKEN"
                    ) from error
    print(f"{place}: the Hugging Face hub does not give it ({reason}); the cached copy is read", file=sys.stderr)
    assert kept is not None
    return kept


def _downloaded(name: HubName, place: str) -> Path:
    hub = HfApi(library_name="lgx", library_version=__version__)
    info = hub.model_info(name.repository, revision=name.revision, timeout=SECONDS)
    first, *others = _chosen(name, [entry.rfilename for entry in info.siblings or ()], place)
    # The first request has the revision's name: the client then stores its commit.
    path = Path(hf_hub_download(name.repository, first, revision=name.revision or _MAIN, library_name="lgx"))
    commit = _name_in_cache(name, path).revision
    for file in others:
        hf_hub_download(name.repository, file, revision=commit, library_name="lgx")
    return path.parent if others else path


def _kept(name: HubName) -> Path:
    """The file or folder of a name in the client's cache."""
    snapshot = Path(snapshot_download(name.repository, revision=name.revision or _MAIN, local_files_only=True))
    files = [file.relative_to(snapshot).as_posix() for file in snapshot.rglob("*") if file.is_file()]
    first, *others = _chosen(name, files, str(name))
    return (snapshot / first).parent if others else snapshot / first


def _chosen(name: HubName, files: Sequence[str], place: str) -> list[str]:
    """The files to read, the file of weights first."""
    if name.inside.endswith(SAFETENSORS):
        if name.inside not in files:
            found = [file for file in files if file.endswith(SAFETENSORS)]
            raise UserError(f"{place}: the repository has no such file; it has {some(found)}")
        return [name.inside]
    folder = f"{name.inside}/" if name.inside else ""
    here = [file.removeprefix(folder) for file in files if file.startswith(folder)]
    learngenes = [file for file in here if file.endswith(LEARNGENE) and "/" not in file]
    if len(learngenes) > 1:
        raise UserError(f"{place}: holds {len(learngenes)} learngenes ({some(learngenes)}); add /FILE to the name")
    if learngenes:
        return [folder + learngenes[0]]
    if {WEIGHTS, CONFIG} <= {*here}:
        return [folder + file for file in (WEIGHTS, CONFIG, *BESIDE) if file in here]
    raise UserError(
        f"{place}: holds no *{LEARNGENE}, and no {CONFIG} with {WEIGHTS}, but {some(here)}; pickled weights are not "
        f"read from elsewhere"
    )


def _name_in_cache(name: HubName, path: Path) -> HubName:
    """The name of a file or folder in the client's cache: ``models--<repository>/snapshots/<commit>/<inside>``."""
    parts = path.parts
    at = parts.index("snapshots", max(i for i, part in enumerate(parts) if part.startswith("models--")))
    return replace(name, revision=parts[at + 1], inside="/".join(parts[at + 2 :]))
