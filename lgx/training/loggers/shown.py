"""What lgx gives to loggers beside metrics: the configuration, the best score, figures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger

from lgx.training.loggers.run_tensorboard import BEST, name_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LONGEST = 250
"""Characters of a value that Lightning gives to MLflow."""


def log_options(
    logger: Logger, options: Mapping[str, Any], shown: Mapping[str, Any], text: str, scores: Sequence[str]
) -> None:
    """Log the configuration as hyper-parameters.

    Args:
        logger: The logger.
        options: The flattened configuration.
        shown: Its part that influences what is learned, for TensorBoard's table.
        text: The configuration as YAML.
        scores: Tags of the scores that TensorBoard's table shows.
    """
    if isinstance(logger, TensorBoardLogger):
        name_scores(logger, shown, [*scores, BEST])
        logger.experiment.add_text("config", f"```yaml\n{text}\n```")
    elif isinstance(logger, MLFlowLogger):
        _log_parameters(logger, options)
    else:
        logger.log_hyperparams(dict(options))


def log_best_score(logger: Logger, score: float, step: int) -> None:
    """Log the best validation score.

    Args:
        logger: The logger.
        score: The score.
        step: The step at which the run has ended.
    """
    logger.log_metrics({BEST: score}, step=step)


def show_figure(logger: Logger, name: str, figure: "Figure", step: int) -> None:
    """Show a figure in a logger that can show one.

    Args:
        logger: The logger.
        name: Name of the figure.
        figure: The figure.
        step: The step at which it was drawn.
    """
    if isinstance(logger, TensorBoardLogger):
        logger.experiment.add_figure(name, figure, step, close=False)
    elif isinstance(logger, MLFlowLogger):
        logger.experiment.log_figure(logger.run_id, figure, f"{name}/step_{step:08d}.png")
    elif callable(log_image := getattr(logger, "log_image", None)):  # WandbLogger, and others after its example
        log_image(name, [figure], step=step)


def _log_parameters(logger: MLFlowLogger, options: Mapping[str, Any]) -> None:
    """MLflow refuses to change a parameter; a resumed run logs a changed option as the tag ``resumed.<option>``."""
    stored = logger.experiment.get_run(logger.run_id).data.params
    logger.log_hyperparams({key: value for key, value in options.items() if key not in stored})
    for key, value in options.items():
        if key in stored and stored[key] != str(value)[:_LONGEST]:
            logger.experiment.set_tag(logger.run_id, f"resumed.{key}", str(value)[:_LONGEST])
