"""Silence warnings and advertisements of other packages that do not concern the user."""

import logging
import os
import re
import threading
import warnings

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
"""Beginnings of warnings; each says why it does not apply."""

_MESSAGES = (
    r"GPU available: ",  # the device is printed before the first step
    r"[TH]PU available: ",
    r"LOCAL_RANK: ",
    r"Using .* Automatic Mixed Precision",  # so is the precision
    r"You are using a CUDA device .* that has Tensor Cores",  # no option of a run changes this
    r"(Restoring states|Restored all states|Loaded model weights) from the checkpoint",  # lgx names the checkpoint
    r"Found current_model_state in the checkpoint",
    r"You're using the WeightAveraging callback, but saving a checkpoint outside",
    r"`Trainer\.fit` stopped: `max_(epochs|steps)=",  # the lines of the epochs have their number
    r"-*\s*distributed_backend=",  # the number of processes is printed before the first step
    r"Your model can run with static graph optimizations",
    r".*(litlogger|litmodels|tip:|💡)",
)
"""Beginnings of messages that Lightning logs; each says why nobody needs it."""

_OF_EACH_PROCESS = ("lightning.fabric.utilities.seed", "lightning.fabric.utilities.distributed")
"""Loggers on which every process writes the same; only the first one may."""


def silence_known_warnings() -> None:
    """Silence advertisements, deprecations of other packages' internals, and advice that does not apply to lgx."""
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
        logging.getLogger(name).addFilter(_is_of_first_process)
    threading.excepthook = _report_unless_tensorboard


def _report_unless_tensorboard(failed: threading.ExceptHookArgs) -> None:
    """Print a thread's error, except that of TensorBoard's writer, which raises it again at the next write."""
    if type(failed.thread).__name__ != "_AsyncWriterThread":
        threading.__excepthook__(failed)


def _concerns_the_user(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    return not any(re.match(pattern, text, re.IGNORECASE | re.DOTALL) for pattern in _MESSAGES)


def _is_of_first_process(record: logging.LogRecord) -> bool:
    return launcher.rank() == 0
