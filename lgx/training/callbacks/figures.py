"""Figures of the network while it trains."""

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger

from lgx.core.files import atomic_path
from lgx.methods.base import Method
from lgx.results.figures import to_svg
from lgx.training.callbacks.place import run_folder


class DrawFigures(Callback):
    """After every validation, draw the method's figures: in TensorBoard, and as ``<name>.svg`` in the run's folder."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw, on the first process."""
        folder = run_folder(trainer)
        if trainer.sanity_checking or folder is None or not isinstance(pl_module, Method):
            return
        figures = pl_module.figures()
        if not trainer.is_global_zero:
            return
        for name, figure in figures.items():
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    logger.experiment.add_figure(name, figure, trainer.global_step, close=False)
            with atomic_path(folder / f"{name}.svg") as temporary:
                temporary.write_text(to_svg(figure, name), encoding="utf-8")
