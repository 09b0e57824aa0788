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


class RunTensorBoard(TensorBoardLogger):
    """Lightning's logger, with the scores and losses first: what describes the run is a group behind them."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log scalars, those that describe the run under other tags."""
        super().log_metrics({shown_tag(tag): value for tag, value in metrics.items()}, step)

    def name_scores(self, parameters: Mapping[str, Any], tags: Iterable[str]) -> None:
        """Name the hyper-parameters and the scalars that the HPARAMS tab shows; the tab reads their last values.

        ``log_hyperparams`` would log a first value of each score, which becomes a point of its curve.

        Args:
            parameters: Plain values by name.
            tags: Tags of the scalars.
        """
        from torch.utils.tensorboard.summary import hparams

        self.hparams.update(parameters)
        scores = {shown_tag(tag): 0.0 for tag in tags}
        for summary in hparams(dict(parameters), scores):
            self.experiment._get_file_writer().add_summary(summary)  # the attribute is None once it was closed


def shown_tag(tag: str) -> str:
    """The tag in TensorBoard.

    Args:
        tag: The tag that was logged.
    """
    if tag in _BOOKKEEPING or tag.startswith(_RATES) or tag.endswith(_COUNT):
        return f"{LAST_GROUP}/{tag.removeprefix('hp/')}"
    return tag
