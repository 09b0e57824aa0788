"""Start of a run: warnings of other packages that do not apply."""

import logging
import os
import threading
import warnings
from pathlib import Path

from lgx.host import launcher

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


def silence_expected_warnings() -> None:
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
