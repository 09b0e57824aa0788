"""Figures of the network while it trains."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger

from lgx.methods.base import Method
from lgx.training.run_folder import run_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DrawFigures(Callback):
    """After every validation, draw the method's figures: in the loggers, and as ``<name>.svg`` in the run's folder."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw, on the first process."""
        folder = run_folder(trainer)
        if trainer.sanity_checking or folder is None or not isinstance(pl_module, Method):
            return
        draw(trainer, folder, pl_module.figures())


def draw(trainer: Trainer, folder: Path, figures: "Mapping[str, Figure]") -> None:
    """Draw figures in the loggers, and in the run's folder; on the first process."""
    if not figures or not trainer.is_global_zero:
        return
    from lgx.components.figures import write_svg

    for name, figure in figures.items():
        write_svg(figure, folder / f"{name}.svg", name)
        for logger in trainer.loggers:
            show_figure(logger, name, figure, trainer.global_step)


def show_figure(logger: Logger, name: str, figure: "Figure", step: int) -> None:
    """Log a figure where the logger takes one."""
    if isinstance(logger, TensorBoardLogger):
        logger.experiment.add_figure(name, figure, step, close=False)
    elif isinstance(logger, MLFlowLogger):
        logger.experiment.log_figure(logger.run_id, figure, f"{name}/step_{step:08d}.png")
    elif callable(log_image := getattr(logger, "log_image", None)):  # WandbLogger, and others after its example
        log_image(name, [figure], step=step)
