"""Sources: find the local file, folder or model that a user names.

A command line, a configuration of ``lgx fit`` and the Python API call :func:`resolve` once for each source. All other
code reads :attr:`Source.place` and never asks a server.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lgx.artifacts.safetensors_files import read_metadata
from lgx.artifacts.source_names import HUB, LEARNGENE, WEIGHTS_SUFFIXES, TimmSource, is_remote, path_of, weights_of
from lgx.errors import UserError
from lgx.host import launcher
from lgx.host.safety import parse_json

_names: dict[str, str] = {}
"""Place -> name, of the sources that this process has resolved."""


@dataclass(frozen=True)
class Source:
    """A source that was found on this machine.

    Attributes:
        name: What records hold: a name on the hub has the commit.
        place: Path, or the name of a model of timm or transformers, see :func:`~lgx.artifacts.source_names.kind_of`.
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
        return next((file for file in files if file.suffix in WEIGHTS_SUFFIXES and file.is_file()), None)


def resolve(text: str, download: bool = True) -> Source:
    """Find the current version of a source; download it if needed.

    Args:
        text: ``hf://org/name``, with ``@revision``, ``/file`` and ``#sha256=…`` if needed, or a model of timm whose
            weights have such a name (``timm:NAME,weights=…``). URLs are refused. Every other text is its own name and
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
        from lgx.artifacts.hub_files import HubName, fetch_hub  # which imports this module through exports

        path, exact = fetch_hub(HubName.parse(text), download)
        source = Source(str(exact), str(path))
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
    from lgx.artifacts.checkpoints import weights_of_run

    file = os.path.join(source, f"best{LEARNGENE}")
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
