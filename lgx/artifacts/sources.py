"""Sources: the forms in which a user names a learngene, a network or weights, and where on this machine each lies.

A command line, a configuration of ``lgx fit`` and the Python API call :func:`resolve` once for each source. Everything
below them reads its :attr:`Source.place` and never asks a server for it.
"""

import difflib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self, get_args
from urllib.parse import parse_qsl, urlsplit

import timm

from lgx.errors import UserError
from lgx.host import launcher

HUB, ZOO, TIMM, TEXT, FOLDER = "hf://", "zoo:", "timm:", "gpt2:", "local-dir:"
"""Beginnings of sources."""
SAFETENSORS, LEARNGENE = ".safetensors", ".learngene.safetensors"
"""How the names of weights and of learngenes end."""
WEIGHTS_SUFFIXES = (SAFETENSORS, ".ckpt", ".pt", ".pth", ".bin", ".tar")
"""How the names of files of weights end."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*(::|://)")
_HUB_NAME = re.compile(
    r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<inside>.+?))?/?"
)
_SECRET = re.compile(r"signature|^sig$|token|secret|password|credential|api_?key|access_?key", re.IGNORECASE)
_LARGEST = 65_536
_HOMES = {"home", "Users"}
_KEPT = 4
"""Parts of a path that identify a file of a run: experiment, run, seed, file."""

_names: dict[str, str] = {}
"""Place -> name, of the sources that this process has resolved."""


@dataclass(frozen=True)
class Source:
    """A source that was found on this machine.

    Attributes:
        name: What records hold: a name on the hub has the commit, a URL the checksum of its file.
        place: What is read: a path, or the name of a model of timm or transformers, see :func:`kind_of`.
    """

    name: str
    place: str

    @property
    def weights(self) -> Path | None:
        """The file of weights: itself, or that of a model folder; None where there is none."""
        if "\0" in self.place or len(self.place) > 4096:  # an option that is no source may hold any text
            return None
        path = Path(path_of(self.place))
        files = [path / name for name in ("model.safetensors", "pytorch_model.bin")] if path.is_dir() else [path]
        return next((file for file in files if file.suffix in WEIGHTS_SUFFIXES and file.is_file()), None)


def resolve(text: str, download: bool = True) -> Source:
    """Find the version of a source that is read now; what lies elsewhere is downloaded.

    Args:
        text: ``hf://org/name``, with ``@revision`` and ``/file`` if needed; the URL of a safetensors file that fsspec
            opens; ``zoo:NAME``; each with ``#sha256=…`` if wanted. A model of timm whose weights have such a name
            (``timm:NAME,weights=…``). Every other text is its own name and place.
        download: Whether servers may be asked; otherwise only what was downloaded before is found.

    Raises:
        UserError: If it cannot be found or downloaded, is another file than its checksum says, or is no safetensors
            file.
    """
    if (weights := _weights_of(text)) and is_remote(weights):
        model, found = TimmSource.parse(text), resolve(weights, download)
        source = Source(replace(model, weights=found.name).name, replace(model, weights=found.place).name)
    elif is_remote(text):
        source = _located(text, download)
        if source.name != text and download and launcher.rank() == 0:
            print(f"source    {text} is {source.name}", file=sys.stderr)
    else:
        return Source(text, text)
    _names[source.place] = source.name
    return source


def resolve_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Find the sources among options, see :func:`resolve`.

    Returns:
        The options with the names of their sources, and with their places.
    """
    found = {key: resolve(value) for key, value in options.items() if isinstance(value, str)}
    names, places = ({key: getattr(found[key], part) for key in found} for part in ("name", "place"))
    return {**options, **names}, {**options, **places}


def resolve_kept(text: str) -> Source:
    """The source as far as it is on this machine; one that would have to be downloaded keeps its name as its place."""
    try:
        return resolve(text, download=False)
    except UserError:
        return Source(text, text)


def recorded_name(place: str) -> str:
    """What records hold for a place: the name under which this process has resolved it, or the place itself."""
    return _names.get(place, place)


def is_remote(text: str) -> bool:
    """Whether a source is a name on the hub, a URL, or the name of a learngene that ships with lgx."""
    return text.startswith(ZOO) or _URL.match(text) is not None


def _located(text: str, download: bool) -> Source:
    # The hub's client and fsspec are imported when they are needed.
    name, sha256 = _split_checksum(text)
    if name.startswith(ZOO):
        from lgx.artifacts.zoo import find_zoo

        path, digest = find_zoo(name.removeprefix(ZOO), sha256)
    elif name.startswith(HUB):
        from lgx.artifacts.hub_files import fetch_hub

        path, exact = fetch_hub(HubName.parse(name), sha256, download)
        return Source(f"{exact}#sha256={sha256}" if sha256 else str(exact), str(path))
    else:
        from lgx.artifacts.urls import fetch_url

        check_url(name)
        path, digest = fetch_url(name, sha256, download)
    return Source(f"{name}#sha256={digest}", str(path))


def _split_checksum(text: str) -> tuple[str, str | None]:
    """A name without its checksum, and the checksum; None where it has none."""
    name, hash_sign, fragment = text.partition("#")
    found = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment.lower())
    if hash_sign and found is None:
        raise UserError(f"{text[:300]}: after # expected sha256= and 64 hexadecimal digits")
    return name, found[1] if found else None


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
        """Read ``hf://org/name@revision/file``; all but organization and name may be left out.

        Raises:
            UserError: If the text has another form.
        """
        found = _HUB_NAME.fullmatch(text)
        inside = (found["inside"] or "") if found else ""
        if found is None or ".." in inside.split("/"):
            raise UserError(f"{text[:300]}: expected hf://ORGANIZATION/NAME, then @REVISION and /FILE if needed")
        return cls(found["repository"], found["revision"], inside)

    @property
    def is_commit(self) -> bool:
        """Whether the revision is a whole commit, which never changes."""
        return re.fullmatch(r"[0-9a-f]{40}", self.revision or "") is not None

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{HUB}{self.repository}{revision}{'/' if self.inside else ''}{self.inside}"


@dataclass(frozen=True)
class TimmSource:
    """A model of timm, where its weights come from, and the sizes to which timm resamples them.

    Attributes:
        model: Name in timm, with or without a tag: ``deit_tiny_patch16_224.fb_in1k``.
        weights: File of weights; None downloads them as timm does.
        img_size: Height and width of the images, pixels; None keeps the model's own.
        patch_size: Height and width of a patch, pixels; likewise.
        in_chans: Channels of the images; likewise.
        num_classes: Classes of the weights' head; 0 leaves the head out; None is what timm states.

    Raises:
        UserError: If timm does not know the model, or a number is out of range.
    """

    model: str
    weights: str | None = None
    img_size: int | None = None
    patch_size: int | None = None
    in_chans: int | None = None
    num_classes: int | None = None

    def __post_init__(self) -> None:
        base, _, tag = self.model.partition(".")
        if not timm.is_model(base) or (tag and self.model not in timm.list_pretrained(f"{base}.*")):
            known = timm.list_pretrained(f"{base}.*") if timm.is_model(base) else timm.list_models()
            close = difflib.get_close_matches(self.model, known, n=2, cutoff=0.4 if tag else 0.6)
            hint = f"did you mean {' or '.join(close)}?" if close else "see `lgx backbones`"
            raise UserError(f"{self.model[:100]}: not a file, a folder or a model that timm knows; {hint}")
        for key, least in (("img_size", 1), ("patch_size", 1), ("in_chans", 1), ("num_classes", 0)):
            value = getattr(self, key)
            if value is not None and not least <= value <= (_LARGEST if least else 10**6):
                raise UserError(f"{TIMM}{self.model}: {key} must be at least {least}, and no larger than models are")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``timm:NAME`` and, after commas, any of the attributes as ``key=value``; ``timm:`` may be left out.

        Raises:
            UserError: If a key is unknown or given twice, or a value is malformed.
        """
        model, *parts = text.removeprefix(TIMM).split(",")
        values: dict[str, Any] = {}
        numbers = {field.name: int in get_args(field.type) for field in fields(cls) if field.name != "model"}
        for part in parts:
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if key not in numbers or not equals or key in values:
                raise UserError(
                    f"{text[:200]}: expected {TIMM}NAME and key=value after commas, each once, got {part[:50]!r}; "
                    f"the keys are {', '.join(numbers)}"
                )
            if numbers[key] and not (value.isdecimal() and len(value) < 10):
                raise UserError(f"{text[:200]}: {key} must be a whole number, got {value[:50]!r}")
            values[key] = int(value) if numbers[key] else value
        return cls(model.strip(), **values)

    @property
    def name(self) -> str:
        """The text form."""
        given = [(field.name, getattr(self, field.name)) for field in fields(self)[1:]]
        return ",".join([f"{TIMM}{self.model}", *(f"{key}={value}" for key, value in given if value is not None)])

    def arguments(self) -> dict[str, Any]:
        """The arguments of ``timm.create_model`` that the attributes ask for."""
        keys = ("img_size", "patch_size", "in_chans", "num_classes")
        return {key: getattr(self, key) for key in keys if getattr(self, key) is not None}


def _weights_of(text: str) -> str | None:
    """The weights that the text form of a model of timm names; None in other sources."""
    parts = [part.partition("=") for part in text.split(",")[1:]] if text.startswith(TIMM) else []
    return next((value.strip() for key, _, value in parts if key.strip() == "weights"), None)


Kind = Literal["learngene", "checkpoint", "weights", "folder", "timm", "transformers", "name"]
"""What lies at a place; ``name`` is that of a pretrained model of timm."""


def kind_of(place: str) -> Kind:
    """What lies at the place of a source, by its form."""
    if place.startswith(TIMM):
        return "timm"
    if place.endswith(LEARNGENE):
        return "learngene"
    if place.endswith(".ckpt"):
        return "checkpoint"
    if place.startswith(FOLDER) or os.path.isdir(place):
        return "folder"
    if place.startswith(TEXT):
        return "transformers"
    return "weights" if place.endswith(WEIGHTS_SUFFIXES) else "name"


def path_of(place: str) -> str:
    """The path in a place: that of the weights of a timm model, otherwise the place without ``local-dir:``."""
    return _weights_of(place) or place.removeprefix(FOLDER)


def check_url(url: str) -> None:
    """Refuse a URL with a password, a token or a signature: records of runs and model folders would store it.

    Raises:
        UserError: If it has one, or cannot be parsed.
    """
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


def path_in(name: str) -> str | None:
    """The path of this machine in a source, also that of a timm model's weights; None in names and URLs."""
    path = path_of(name).removeprefix("file://")
    if is_remote(path) or path.startswith((TIMM, TEXT, "hf-hub:")) or timm.is_model(path.split(".")[0]):
        return None
    return path if "/" in path or path.endswith((SAFETENSORS, ".ckpt")) else None


def public_path(path: str) -> str:
    """The last parts of a path, which identify a file of a run, without a user's home."""
    parts = [part for part in PurePosixPath(path).parts if part != ".."]
    if parts[:1] == ["/"]:
        parts = parts[3:] if parts[1:2] and parts[1] in _HOMES else parts[1:]
    kept = _KEPT + 1 if parts[-2:-1] == ["checkpoints"] else _KEPT
    return "/".join(parts[-kept:])


def public_name(name: str) -> str:
    """A source as others may see it: a path in it is shortened, a name or URL stays as it is."""
    path = path_in(name)
    return name if path is None else name.replace(path, public_path(path))
