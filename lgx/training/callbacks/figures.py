"""Figures of the network while it trains."""

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.methods.base import Method
from lgx.training.loggers import show_figure
from lgx.training.run_folder import run_folder


class DrawFigures(Callback):
    """After every validation, draw the method's figures: in the loggers, and as ``<name>.svg`` in the run's folder."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw, on the first process."""
        folder = run_folder(trainer)
        if trainer.sanity_checking or folder is None or not isinstance(pl_module, Method):
            return
        figures = pl_module.figures()
        if not figures or not trainer.is_global_zero:
            return
        from lgx.components.figures import write_svg

        for name, figure in figures.items():
            for logger in trainer.loggers:
                show_figure(logger, name, figure, trainer.global_step)
            write_svg(figure, folder / f"{name}.svg", name)
