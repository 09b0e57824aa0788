"""Leave out imports that other packages make without using them, and postpone those that few of their functions use."""

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_UNUSED = {"wandb": "timm.utils.summary"}
"""Module -> the module whose import of it fails, as where it is not installed.

timm needs wandb for its own training script alone; importing it takes a tenth of lgx's start."""

_POSTPONED = {"torchmetrics": ("transformers", "scipy.signal")}
"""Package -> modules that it imports for a few of its functions.

Lightning imports torchmetrics. Of its metrics, BERTScore and the filters of speech quality alone need these modules,
whose imports take a fifth of lgx's start."""

_READERS = ("librosa",)
"""Packages that torchmetrics imports where they are installed, and that use these modules while they are imported."""


class _Unused(MetaPathFinder):
    """Fails the imports of ``_UNUSED``, and postpones those of ``_POSTPONED``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None: the next finder looks for it."""
        if fullname in _POSTPONED:
            return _postponing(fullname, path)
        importer = _UNUSED.get(fullname)
        frame = None if importer is None else sys._getframe(1)
        while frame is not None:
            if frame.f_globals.get("__name__") == importer:
                raise ModuleNotFoundError(f"{importer} does not need {fullname}", name=fullname)
            frame = frame.f_back
        return None


class _Later:
    """Stands for something in a module, which is imported when it is used."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(importlib.import_module(self._module), self._name), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(self._module), self._name)(*args, **kwargs)


class _StandIn(ModuleType):
    """Stands for a module while a package is imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Later(self.__name__, name)


def skip_unused_imports() -> None:
    """Let timm be imported without wandb, and torchmetrics without transformers and scipy.signal; all others get them.

    This must come before Lightning is imported.
    """
    if not any(isinstance(finder, _Unused) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Unused())


def _postponing(package: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Where a package is, with a loader that puts stand-ins in the place of the modules while the package is read."""
    spec = PathFinder.find_spec(package, path)
    if spec is None or spec.loader is None or any(find_spec(reader) for reader in _READERS):
        return None
    execute = spec.loader.exec_module

    def exec_module(module: ModuleType) -> None:
        with _stand_ins(_POSTPONED[package]):
            execute(module)

    spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


@contextmanager
def _stand_ins(names: Iterable[str]) -> Iterator[None]:
    """Put stand-ins in the place of installed modules in the block, except those that are imported already."""
    placed: dict[str, _StandIn] = {}
    for name in names:
        if name not in sys.modules and (spec := find_spec(name)) is not None:
            placed[name] = stand_in = _StandIn(name)
            stand_in.__spec__ = spec
            sys.modules[name] = stand_in
    try:
        yield
    finally:
        for name, stand_in in placed.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            parent, _, own = name.rpartition(".")
            if parent and vars(sys.modules[parent]).get(own) is stand_in:
                delattr(sys.modules[parent], own)
