"""Start and end of a program: imports, garbage collection, memory allocation, and warnings of other packages."""

import atexit
import ctypes
import gc
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from lgx.host import launcher

RARE = (50_000, 20, 100)
"""Thresholds of Python's garbage collector with which it rarely inspects objects of imports."""

_usual: tuple[int, int, int] | None = None
"""The thresholds to return to; None unless the collector runs rarely."""


def collect_rarely() -> None:
    """Let Python's garbage collector run less often, until :func:`collect_as_usual`.

    The imports of PyTorch and Lightning make a million objects, which all stay. With Python's thresholds the collector
    inspects them repeatedly, which takes a fifth of the time before the first step.
    """
    global _usual
    _usual = _usual or gc.get_threshold()
    gc.set_threshold(*RARE)


def collect_as_usual() -> None:
    """Undo :func:`collect_rarely`, if it was called."""
    global _usual
    if _usual is not None:
        gc.set_threshold(*_usual)
        _usual = None


@contextmanager
def exit_at_once() -> Iterator[None]:
    """Let the process end without a last garbage collection, which takes more than a second after a training run.

    ``gc.freeze`` would leave it out as well, but then the bindings of Triton report leaked objects.

    All functions that are registered with ``atexit`` within the block run first, and the output is written. After an
    error that the block does not expect, and if the output cannot be written, Python ends the process as always.
    """
    code: int | None = None

    def end() -> None:
        if code is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            return
        os._exit(code)

    atexit.register(end)  # the first that is registered is called last
    try:
        yield
        code = 0
    except SystemExit as ending:
        code = ending.code & 0xFF if isinstance(ending.code, int) else int(ending.code is not None)
        raise


_MALLOPT = {-3: 2**30, -1: 2**31 - 1, -2: 2**26}
"""Numbers of glibc's parameters M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_TOP_PAD -> values."""


def keep_freed_memory() -> None:
    """Let glibc keep freed memory of any size for the next step, in this process.

    By default glibc returns large blocks to the system, and every training step on the CPU pays page faults for all its
    activations again. With another C library this function does nothing.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        for number, value in _MALLOPT.items():
            libc.mallopt(number, value)


_POSTPONED = {"timm": ("wandb",), "torchmetrics": ("transformers", "scipy.signal")}
"""Package -> modules that it imports for few functions.

timm needs wandb for its own training script; Lightning imports torchmetrics, where BERTScore and the filters of speech
quality alone need these modules. Importing them takes a third of lgx's start."""

_READERS = ("librosa",)
"""Packages that torchmetrics imports where they are installed, and that use these modules while they are imported."""


class _Postponing(MetaPathFinder):
    """Finds the packages of ``_POSTPONED``, which are then imported with stand-ins for some modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for all other modules: the next finder looks for them."""
        spec = PathFinder.find_spec(fullname, path) if fullname in _POSTPONED else None
        if spec is None or spec.loader is None or any(map(find_spec, _READERS)):
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with _stand_ins(_POSTPONED[fullname]):
                execute(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _StandIn(ModuleType):
    """Replaces a module, or a member of it, while a package is imported; imports it when it is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return resolve_name(self.__name__)(*args, **kwargs)


def skip_unused_imports() -> None:
    """Import timm without wandb, and torchmetrics without transformers and scipy.signal; other packages get these.

    This must come before Lightning is imported.
    """
    if not any(isinstance(finder, _Postponing) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Postponing())


@contextmanager
def _stand_ins(names: Iterable[str]) -> Iterator[None]:
    """Replace installed modules by stand-ins inside the block, except modules that are already imported."""
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
            parent, _, child = name.rpartition(".")
            if parent and vars(sys.modules[parent]).get(child) is stand_in:
                delattr(sys.modules[parent], child)


_WARNINGS = (
    r".*does not have many workers.*",  # small sets load faster in the training process
    r".*LeafSpec.*",  # Lightning's call, not ours
    r".*torch\.distributed\.nn\.functional\.all_gather is deprecated.*",  # likewise
    r".*The number of training batches .* is smaller than the logging interval.*",
    r".*It is recommended to use `self.log\(.*sync_dist=True\)`.*",  # metric objects sync by themselves
    r".*exists and is not empty.*",  # a resumed run's own folder
    r".*The dirpath has changed from.*",  # a checkpoint of another run is evaluated, not continued
    r".*`srun` command is available.*",  # a run need not be a job, and a job of one process needs no srun
    r"MLFlow only allows .* special characters in metric name.*",  # docs/loggers.md says so
    r".*WeightAveraging callback with a model that overrides the configure_model.*",  # nothing is sharded here
    r".*WeightAveraging callback, but loading a checkpoint outside.*",  # the checkpoint's weights are the averaged ones
    r".*could not find the monitored key in the returned metrics.*",  # a run says at its end if it has no best one
)
"""Beginnings of warnings that do not apply, each with the reason."""

_OF_EACH_PROCESS = ("lightning.fabric.utilities.seed", "lightning.fabric.utilities.distributed")
"""Loggers to which every process writes the same; only the first process may."""


def silence_known_warnings() -> None:
    """Hide advertisements, deprecations of other packages' internals, and advice that does not apply to lgx."""
    os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    for pattern in _WARNINGS:
        warnings.filterwarnings("ignore", message=pattern)
    for name in (
        "lightning.pytorch.utilities.rank_zero",
        "lightning.pytorch.accelerators.cuda",
        "lightning.fabric.utilities.rank_zero",
    ):
        logging.getLogger(name).addFilter(_concerns_the_user)
    for name in _OF_EACH_PROCESS:
        logging.getLogger(name).addFilter(lambda record: launcher.rank() == 0)
    threading.excepthook = _report_unless_tensorboard


def _report_unless_tensorboard(failed: threading.ExceptHookArgs) -> None:
    """Print a thread's error, except the error of TensorBoard's writer, which raises it again at the next write."""
    if type(failed.thread).__name__ != "_AsyncWriterThread":
        threading.__excepthook__(failed)


def _concerns_the_user(record: logging.LogRecord) -> bool:
    """Whether a message is a warning, or not Lightning's own: lgx prints device, precision and checkpoint by itself."""
    return record.levelno > logging.INFO or "lightning" not in Path(record.pathname).parts
