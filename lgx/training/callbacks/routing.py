"""Which blocks each data set prefers, while a search trains."""

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger

from lgx.core.files import atomic_path
from lgx.methods.lsamd.method import LSAMD
from lgx.training.callbacks.place import run_folder


class DrawRouting(Callback):
    """After every validation of a search, a heat map of P(h^B|x) by layer and data set in TensorBoard (``routing``).

    The last one is kept as ``routing.svg`` in the run's folder.
    """

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw, on the first process."""
        if trainer.sanity_checking or not isinstance(pl_module, LSAMD):
            return
        folder = run_folder(trainer)
        if folder is None or not trainer.is_global_zero:
            return
        from lgx.results.figures import routing_figure, to_svg

        figure = routing_figure({f"P(base), routed by {pl_module.routing}": pl_module.probabilities})
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_figure("routing", figure, trainer.global_step, close=False)
        with atomic_path(folder / "routing.svg") as temporary:
            temporary.write_text(to_svg(figure, "routing"), encoding="utf-8")
