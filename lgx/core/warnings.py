"""Silence warnings and advertisements of other packages that do not concern the user."""

import logging
import os
import threading
import warnings


def silence_known_warnings() -> None:
    """Silence advertisements, deprecations of other packages' internals, and advice that does not apply to lgx."""
    os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    for pattern in (
        r".*does not have many workers.*",  # small sets load faster in the training process
        r".*LeafSpec.*",  # Lightning's call, not ours
        r".*The number of training batches .* is smaller than the logging interval.*",
        r".*It is recommended to use `self.log\(.*sync_dist=True\)`.*",  # metric objects sync by themselves
        r".*exists and is not empty.*",  # a resumed run's own folder
        r".*The dirpath has changed from.*",  # a checkpoint of another run is evaluated, not continued
        r".*`srun` command is available.*",  # a run need not be a job, and a job of one process needs no srun
        r"MLFlow only allows .* special characters in metric name.*",  # docs/loggers.md says so
        r".*WeightAveraging callback with a model that overrides the configure_model.*",  # nothing is sharded here
    ):
        warnings.filterwarnings("ignore", message=pattern)
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.pytorch.accelerators.cuda"):
        logging.getLogger(name).addFilter(_is_no_advertisement)
    threading.excepthook = _report_unless_tensorboard


def _report_unless_tensorboard(failed: threading.ExceptHookArgs) -> None:
    """Print a thread's error, except that of TensorBoard's writer, which raises it again at the next write."""
    if type(failed.thread).__name__ != "_AsyncWriterThread":
        threading.__excepthook__(failed)


def _is_no_advertisement(record: logging.LogRecord) -> bool:
    text = record.getMessage().lower()
    return not any(word in text for word in ("litlogger", "litmodels", "tip:", "💡"))
