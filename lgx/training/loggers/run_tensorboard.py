"""TensorBoard's files of a run."""

from collections.abc import Iterable, Mapping
from typing import Any

from lightning.pytorch.loggers import TensorBoardLogger

BEST = "hp/best_val"
"""Tag of the best validation score, in the metric that chooses the best checkpoint."""
LAST_GROUP = "z_run"
"""TensorBoard sorts groups of tags by name and opens the first ones: this one comes after test, train and val."""
_BOOKKEEPING = ("epoch", "effective_batch", "trainable_parameters", BEST)
_COUNT = "/n"
"""End of the tags of numbers of evaluated examples."""
_RATES = "lr-"
"""Beginning of the tags of Lightning's ``LearningRateMonitor``."""


def tensorboard_logger(options: Mapping[str, Any]) -> TensorBoardLogger:
    """Lightning's logger, with the scores and losses first: what describes the run is a group behind them.

    Args:
        options: Arguments of ``TensorBoardLogger``.
    """
    return _ScoresFirst(**options)


def name_scores(logger: TensorBoardLogger, parameters: Mapping[str, Any], tags: Iterable[str]) -> None:
    """Name the hyper-parameters and the scalars that the HPARAMS tab shows; the tab reads their last values.

    ``log_hyperparams`` would log a first value of each score, which becomes a point of its curve.

    Args:
        logger: The logger.
        parameters: Plain values by name.
        tags: Tags of the scalars.
    """
    from torch.utils.tensorboard.summary import hparams

    logger.hparams.update(parameters)
    written = [shown_tag(tag) if isinstance(logger, _ScoresFirst) else tag for tag in tags]
    for summary in hparams(dict(parameters), dict.fromkeys(written, 0.0)):
        logger.experiment._get_file_writer().add_summary(summary)  # the attribute is None once it was closed


class _ScoresFirst(TensorBoardLogger):
    # Private, because configurations name TensorBoardLogger.
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        super().log_metrics({shown_tag(tag): value for tag, value in metrics.items()}, step)


def shown_tag(tag: str) -> str:
    """The tag in TensorBoard.

    Args:
        tag: The tag that was logged.
    """
    if tag in _BOOKKEEPING or tag.startswith(_RATES) or tag.endswith(_COUNT):
        return f"{LAST_GROUP}/{tag.removeprefix('hp/')}"
    return tag
