"""Names of sources for files that others read: without the folders of the machine that wrote them."""

from pathlib import PurePosixPath

import timm

from lgx.artifacts.remote import is_remote
from lgx.artifacts.remote.names import SAFETENSORS
from lgx.artifacts.timm_source import PREFIX, file_of

_PREFIXES = ("local-dir:", "file://")
"""Beginnings of sources that a path of this machine follows."""

_NAMES = (PREFIX, "hf-hub:", "gpt2:")
"""Beginnings of names of timm and of the hub."""

_HOMES = {"home", "Users"}
_KEPT = 4
"""Parts of a path that identify a file of a run: experiment, run, seed, file."""


def path_in(source: str) -> str | None:
    """The path of this machine in a source, also that of weights in the text form; None in names and URLs.

    Args:
        source: What an initializer or a method reads.
    """
    path = file_of(source)
    for prefix in _PREFIXES:
        path = path.removeprefix(prefix)
    if is_remote(path) or path.startswith(_NAMES) or timm.is_model(path.split(".")[0]):
        return None
    return path if "/" in path or path.endswith((SAFETENSORS, ".ckpt")) else None


def public_path(path: str) -> str:
    """The last parts of a path, which identify a file of a run, without a user's home.

    Args:
        path: A path, absolute or not.
    """
    parts = [part for part in PurePosixPath(path).parts if part != ".."]
    if parts[:1] == ["/"]:
        parts = parts[3:] if parts[1:2] and parts[1] in _HOMES else parts[1:]
    kept = _KEPT + 1 if parts[-2:-1] == ["checkpoints"] else _KEPT
    return "/".join(parts[-kept:])


def public_name(source: str) -> str:
    """A source as others may see it: a path in it is shortened, a name or URL stays as it is.

    Args:
        source: What an initializer or a method reads.
    """
    path = path_in(source)
    return source if path is None else source.replace(path, public_path(path))
