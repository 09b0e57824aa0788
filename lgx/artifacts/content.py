"""What learngenes and checkpoints hold, and the rules for files written before they said it."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from lgx.architectures import Architecture

Content = Literal["network", "layers", "templates", "hypernetwork"]
"""What a learngene holds: a whole network, layers that are expanded to a network, templates of which matrices are made,
or a hypernetwork."""
TEMPLATES = "templates."
"""Prefix of the names of templates; all other tensors beside them are parameters of the network."""

# The method that learns two layers, from which all others are computed. In older files, which lack the keys `content`
# and `plain_network`, an auxiliary net of two layers differs from an ordinary network by the method's name alone.
_LAYERS_BEFORE_CONTENT = "tleg"


def content_of(architecture: Architecture, names: Iterable[str], is_hypernetwork: bool, is_selection: bool) -> Content:
    """What a learngene holds that does not say it.

    Args:
        architecture: The network that the tensors were taken from.
        names: Names of the tensors.
        is_hypernetwork: Whether the learngene has the configuration of a hypernetwork.
        is_selection: Whether its layers were selected.
    """
    if is_hypernetwork:
        return "hypernetwork"
    if is_selection or architecture.shares_layers:
        return "layers"
    return "network" if _count_layers(architecture, names) == architecture.depth else "layers"


def content_of_old_file(method: str, content: Content) -> Content:
    """Correct the result of :func:`content_of` for a file without the key ``content``, by the method that it names."""
    return "layers" if method == _LAYERS_BEFORE_CONTENT else content


def holds_plain_network(about: Mapping[str, Any], architecture: Architecture, names: Iterable[str]) -> bool:
    """Whether a checkpoint holds an ordinary network of its architecture.

    Args:
        about: The checkpoint's own description. One without the key ``plain_network`` is older than this key; further
            keys then tell networks that route their inputs, and hypernetworks.
        architecture: The architecture that it names.
        names: Names of the network's tensors.
    """
    stored = about.get("plain_network")
    if isinstance(stored, bool):
        return stored
    if "routing" in about or "hypernet" in about or architecture.shares_layers:
        return False
    # A trained descendant of that method has its name too, but all of its layers.
    return about.get("method") != _LAYERS_BEFORE_CONTENT or _count_layers(architecture, names) != 2


def _count_layers(architecture: Architecture, names: Iterable[str]) -> int:
    prefix = architecture.layers
    return len({name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)})
