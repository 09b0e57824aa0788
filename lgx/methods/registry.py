"""Initializers by the name of their method."""

import inspect
from collections.abc import Callable
from typing import Any

from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.errors import UserError
from lgx.initialization.base import Initializer
from lgx.methods.baselines.pretrained import Pretrained
from lgx.methods.baselines.random import RandomStart
from lgx.methods.baselines.vanilla_lg import VanillaLG
from lgx.methods.baselines.weight_selection import WeightSelection
from lgx.methods.hypernetworks.initializer import HypernetPrediction
from lgx.methods.layers import LayerExpansion
from lgx.methods.lsamd.initializer import SelectedExpansion
from lgx.methods.sws.initializer import StagewiseExpansion
from lgx.methods.tleg.initializer import LinearExpansion

INITIALIZERS: dict[str, Callable[..., Initializer]] = {
    "random": RandomStart,
    "pretrained": Pretrained,
    "vanilla_lg": VanillaLG,
    "weight_selection": WeightSelection,
    "sws": StagewiseExpansion,
    "simple_lg": StagewiseExpansion,
    "mini_deit": StagewiseExpansion,
    "tleg": LinearExpansion,
    "lsamd": SelectedExpansion,
    "ghn3": HypernetPrediction,
    "logah": HypernetPrediction,
    "logah_residual": HypernetPrediction,
    "logah_aligned": HypernetPrediction,
    "tal": HypernetPrediction,
}
"""Method name -> class. Every class but ``random`` takes the file or folder as its first argument."""


def initializer_for(source: str | None = None, method: str | None = None, **options: Any) -> Initializer:
    """Find the initializer.

    Args:
        source: Learngene file, folder, checkpoint or timm name; None for ``random``.
        method: Name of the method; by default what the learngene file says, ``pretrained`` for other sources.
        options: Further arguments of the initializer; those that are None count as not given.

    Raises:
        UserError: If the method is unknown or does not take an option, or the source is missing or of another method.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if source is None:
        if method not in (None, "random"):
            raise UserError(f"method {method}: needs --learngene (a learngene file, a folder or a timm name)")
        _check_options(RandomStart, "random", given)
        return RandomStart()
    learngene = Learngene.load(source) if source.endswith(SUFFIX) else None
    stored = learngene.method if learngene else None
    if learngene and learngene.hypernet and method in (None, stored):
        _check_options(HypernetPrediction, learngene.method, given)  # of any name: variants have their own
        return HypernetPrediction(source, **given)
    if method is None:
        method = stored if stored in INITIALIZERS else "pretrained"
    if method not in INITIALIZERS:
        raise UserError(f"method {method!r} is unknown; known are {', '.join(INITIALIZERS)}")
    if method == "random":
        raise UserError(f"method random takes nothing from {source}; leave out --learngene")
    found = INITIALIZERS[method]
    if isinstance(found, type) and issubclass(found, LayerExpansion) and stored not in found.learned_by:
        what = f"a learngene of {stored}, not of {method}; leave out --method" if stored else "no learngene file"
        raise UserError(f"{source}: {what}; {method} expands the best{SUFFIX} of a run")
    if found is HypernetPrediction and stored not in (None, method):
        raise UserError(f"{source}: a learngene of {stored}, not of {method}; leave out --method")
    _check_options(found, method, given)
    return found(source, **given)


def _check_options(initializer: Callable[..., Initializer], method: str, given: dict[str, Any]) -> None:
    for name in given:
        if not _takes(initializer, name):
            takers = [other for other, found in INITIALIZERS.items() if _takes(found, name)]
            raise UserError(f"--{name}: method {method} does not take it; --method is to be {' or '.join(takers)}")


def _takes(initializer: Callable[..., Initializer], option: str) -> bool:
    return option in inspect.signature(initializer).parameters
