"""Order, labels and line styles of methods in tables and figures."""

from typing import Any

from lgx.methods import registry


def method_order(name: str) -> tuple[int, str]:
    """Sort key of a method: declared names in the registry's order, then others by name.

    Args:
        name: A name in results; ``sws (variant)`` has the place of ``sws``.
    """
    declared = list(registry.looks())
    method = name.partition(" (")[0]
    return declared.index(method) if method in declared else len(declared), name


def label_of(name: str) -> str:
    """Words for a reader: the declared label, or the name itself."""
    look = registry.looks().get(name)
    return look.label if look else name


def style_of(name: str) -> dict[str, Any]:
    """Matplotlib's arguments of a method's lines; without a declared color the next one of matplotlib."""
    look = registry.looks().get(name)
    return {"color": look.color, "linestyle": look.dash} if look and look.color else {}
