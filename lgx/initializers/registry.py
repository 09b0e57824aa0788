"""Initializers by the name of their method."""

from collections.abc import Callable

from lgx.errors import UserError
from lgx.initializers.base import Initializer
from lgx.initializers.pretrained import Pretrained, VanillaLG, WeightSelection
from lgx.initializers.random import RandomStart
from lgx.initializers.stagewise import StagewiseExpansion
from lgx.learngene import SUFFIX, Learngene

INITIALIZERS: dict[str, Callable[..., Initializer]] = {
    "random": RandomStart,
    "pretrained": Pretrained,
    "vanilla_lg": VanillaLG,
    "weight_selection": WeightSelection,
    "sws": StagewiseExpansion,
    "simple_lg": StagewiseExpansion,
}
"""Method name -> class. Every class but ``random`` takes the file or folder as its first argument."""


def initializer_for(source: str | None = None, method: str | None = None) -> Initializer:
    """Find the initializer.

    Args:
        source: Learngene file, folder, checkpoint or timm name; None for ``random``.
        method: Name of the method; by default what the learngene file says, ``pretrained`` for other sources.

    Raises:
        UserError: If the method is unknown, or the source is missing or of another method.
    """
    if source is None:
        if method not in (None, "random"):
            raise UserError(f"method {method}: needs --learngene (a learngene file, a folder or a timm name)")
        return RandomStart()
    stored = Learngene.load(source).method if source.endswith(SUFFIX) else None
    if method is None:
        method = stored if stored in INITIALIZERS else "pretrained"
    if method not in INITIALIZERS:
        raise UserError(f"method {method!r} is unknown; known are {', '.join(INITIALIZERS)}")
    if method == "random":
        raise UserError(f"method random takes nothing from {source}; leave out --learngene")
    if INITIALIZERS[method] is StagewiseExpansion and stored not in (None, "sws", "simple_lg"):
        raise UserError(f"{source}: a learngene of {stored}, not of {method}; leave out --method")
    return INITIALIZERS[method](source)
