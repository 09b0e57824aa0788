"""Put off the import of libraries that other packages import without using them."""

import importlib.util
import sys

_UNUSED = ("wandb",)
"""timm imports wandb wherever it is installed, for its own training script; it takes a tenth of lgx's start."""


def defer_unused_imports() -> None:
    """Let ``import wandb`` load nothing until the module is used; nothing changes where it is absent or was loaded."""
    for name in _UNUSED:
        if name in sys.modules or (spec := importlib.util.find_spec(name)) is None or spec.loader is None:
            continue
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
