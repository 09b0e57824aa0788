"""The axes of each parameter of a network."""

from collections.abc import Mapping
from functools import lru_cache

from lgx.architectures.axes import Axes, renamed
from lgx.architectures.base import Architecture
from lgx.errors import UserError


def axes_of(architecture: Architecture, name: str) -> Axes:
    """The axes of one parameter.

    Args:
        architecture: The network.
        name: The parameter's name. Its layer may have any number, because all layers have the same axes.
    """
    tied, of_one_layer = _names_and_axes(architecture)
    name = tied.get(name, name)
    prefix = architecture.layers
    key = name
    if name.startswith(prefix):
        number, _, rest = name.removeprefix(prefix).partition(".")
        key = f"{prefix}0.{rest}"
        layer = f"{prefix}{number}."
    axes = of_one_layer.get(key)
    if axes is None:
        raise UserError(f"{name}: the network does not have this parameter")
    return axes if key == name else tuple(axis and renamed(axis, f"{prefix}0.", layer) for axis in axes)


@lru_cache(maxsize=256)
def _names_and_axes(architecture: Architecture) -> tuple[Mapping[str, str], Mapping[str, Axes]]:
    """The other names of parameters, and the axes of one layer, of which a network's parameters ask one by one."""
    return architecture.tied_names(), architecture.axes_of_one_layer()
