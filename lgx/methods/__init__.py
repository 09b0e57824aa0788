"""Methods: one folder each, with its MethodSpec, its LightningModule, its networks and its initializer.

``from lgx.methods import SWS`` imports a method, or an initializer such as ``Pretrained``, on first use. The specs,
which help and tables read, import neither torch nor a method.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Import a method's or an initializer's class by its short name."""
    registry = import_module(f"{__name__}.registry") if name[:1].isupper() else None  # submodules are asked for, too
    path = registry and ("lgx.methods.base:Method" if name == "Method" else registry.class_path(name))
    if not registry or not path:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = imported_class = import_module(f"{__name__}.spec").imported(path)
    return imported_class
