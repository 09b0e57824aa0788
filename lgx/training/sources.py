"""Write into a configuration which version of each source from elsewhere the run reads."""

from typing import Any

from jsonargparse import Namespace

from lgx.artifacts.timm_source import pinned_source
from lgx.errors import UserError


def pin_sources(config: Namespace) -> None:
    """Replace names on the hub and URLs below ``model`` by those of the version that is read now.

    ``config.yaml``, the same-run contract, learngenes and comparisons then name the commit, or the checksum of the file
    of a URL; a run that is resumed refuses another version.

    Args:
        config: A parsed configuration of ``lgx fit``; it is changed.

    Raises:
        UserError: If a source cannot be downloaded; the message names its option.
    """
    _pin(config.model, "model")


def _pin(values: Any, place: str) -> None:
    entries = vars(values) if isinstance(values, Namespace) else values
    for key, value in list(entries.items()):
        inside = place if key == "init_args" else f"{place}.{key}"
        if isinstance(value, Namespace | dict):
            _pin(value, inside)
        elif isinstance(value, str) and key != "class_path":
            try:
                entries[key] = pinned_source(value)
            except UserError as error:
                raise UserError(f"{inside}: {error}") from error
