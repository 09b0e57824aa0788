"""lgx: condense one large ancestor into a small learngene that initializes descendants of many sizes.

From Python: :func:`lgx.init`, :func:`lgx.load_learngene`, :func:`lgx.load_family`, :func:`lgx.embed_task`,
:func:`lgx.compare`. They are imported on first use. This module imports nothing heavy, so that ``lgx --help`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lgx.core.version import __version__

if TYPE_CHECKING:
    from lgx.commands.api import embed_task, init, load_family, load_learngene
    from lgx.results.comparison import compare

__all__ = ["__version__", "compare", "embed_task", "init", "load_family", "load_learngene"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lgx' has no attribute {name!r}")
    # jsonargparse reads the name of each command; `lgx compare` imports this module anyway.
    return getattr(import_module("lgx.results.comparison" if name == "compare" else "lgx.commands.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
