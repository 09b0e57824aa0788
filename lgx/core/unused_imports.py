"""Leave out imports that other packages make without using them."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_UNUSED = {"wandb": "timm.utils.summary"}
"""Module -> the module whose import of it fails, as where it is not installed.

timm needs wandb for its own training script alone; importing it takes a tenth of lgx's start."""


class _Unused(MetaPathFinder):
    """Fails the imports of ``_UNUSED``; all others find what they look for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None: the next finder looks for it."""
        importer = _UNUSED.get(fullname)
        frame = None if importer is None else sys._getframe(1)
        while frame is not None:
            if frame.f_globals.get("__name__") == importer:
                raise ModuleNotFoundError(f"{importer} does not need {fullname}", name=fullname)
            frame = frame.f_back
        return None


def skip_unused_imports() -> None:
    """Let timm be imported without wandb; whoever else imports wandb gets it."""
    if not any(isinstance(finder, _Unused) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Unused())
