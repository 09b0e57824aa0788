"""Which classes a configuration may name."""

import importlib
import inspect
import os
from functools import cache

from jsonargparse import set_parsing_settings

from lgx.errors import UserError

_PACKAGES = {
    "lgx.training.callbacks": "lgx", "lgx.components.optim": "lgx",
    "data_modules": "data_modules",
    "torchvision.transforms.v2": "torchvision.transforms.v2",
    "torch.optim": "torch.optim", "torch.optim.lr_scheduler": "torch.optim", "timm.optim": "timm.optim",
    "lightning.pytorch.accelerators": "lightning", "lightning.pytorch.callbacks": "lightning",
    "lightning.pytorch.loggers": "lightning", "lightning.pytorch.plugins": "lightning",
    "lightning.pytorch.plugins.environments": "lightning", "lightning.pytorch.plugins.io": "lightning",
    "lightning.pytorch.plugins.precision": "lightning", "lightning.pytorch.profilers": "lightning",
    "lightning.pytorch.strategies": "lightning",
}  # fmt: skip
"""Packages whose classes a configuration may name -> package in which such a class must be defined."""

KNOWN = (
    "lgx, data_modules, torch.optim, timm.optim, torchvision.transforms.v2, or lightning's callbacks, loggers, "
    "plugins, profilers, strategies"
)
"""The same, in words."""

_in_force: list[str] = []
"""What jsonargparse was given last, with the packages of ``LGX_ALLOW_IMPORTS``; again takes a tenth of a short run."""


def restrict_imports() -> None:
    """Let configurations name the classes of known packages only: no functions, and no methods of the classes.

    jsonargparse imports the module of a class path before it checks the class. An option that takes a callable would
    accept any function with its arguments, for example one that loads pickles. In both ways a foreign configuration
    could run code. ``LGX_ALLOW_IMPORTS=mypackage,other`` also admits everything in these packages.
    """
    admitted = admitted_packages()
    if _in_force == ["*", *admitted]:
        return
    denied = ["*", *{*_in_force} - {*admitted}]  # jsonargparse keeps what an earlier call has allowed
    for known in known_classes().values():
        functions = [
            name
            for name, value in vars(known).items()
            if inspect.isroutine(value) or isinstance(value, classmethod | staticmethod)
        ]
        denied += [f"{known.__module__}.{known.__qualname__}.{name}" for name in functions]
    try:
        set_parsing_settings(import_path_denylist=denied, import_path_allowlist=[*known_paths(), *admitted])
    except ValueError as error:
        raise UserError(f"LGX_ALLOW_IMPORTS: {' '.join(str(error).split())}") from error
    _in_force[:] = ["*", *admitted]


def admitted_packages() -> list[str]:
    """The packages that ``LGX_ALLOW_IMPORTS`` names."""
    return [name.strip() for name in os.environ.get("LGX_ALLOW_IMPORTS", "").split(",") if name.strip()]


def denied(path: str) -> str:
    """The sentence on a class or function that no configuration may name."""
    package = path.partition(".")[0]
    return (
        f"importing {path} is not allowed; a class path names a class of {KNOWN}; "
        f"LGX_ALLOW_IMPORTS={package} also admits {package}, if you wrote it or trust it"
    )


@cache
def known_paths() -> dict[str, None]:
    """All paths of the classes that a configuration may name.

    Any package above its module may export a class: a saved configuration has the shortest of these paths.
    """
    modules = {known: known.__module__.split(".") for known in known_classes().values()}
    above = [
        ".".join([*names[:depth], known.__qualname__])
        for known, names in modules.items()
        for depth in range(1, len(names) + 1)
    ]
    return dict.fromkeys([*known_classes(), *above])


@cache
def known_classes() -> dict[str, type]:
    """The classes that a configuration may name: path -> class."""
    from lgx.methods import registry  # imports torch, which the commands that take no class do without

    found: dict[str, type] = registry.method_classes() | registry.initializer_classes()
    known = {f"{value.__module__}.{name}": value for name, value in found.items()}
    known |= {f"lgx.methods.{name}": value for name, value in found.items() if value.__module__.startswith("lgx.")}
    return known | {
        f"{package}.{name}": value
        for package, home in _PACKAGES.items()
        for name, value in vars(importlib.import_module(package)).items()
        if inspect.isclass(value) and f"{value.__module__}.".startswith(f"{home}.") and not name.startswith("_")
    }
