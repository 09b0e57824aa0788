"""Whether a hypernetwork learns to tell tasks apart, while it trains."""

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger

from lgx.core.files import atomic_path
from lgx.methods.hypernetworks.base import HypernetMethod
from lgx.methods.hypernetworks.task_map import DEPTHS, TaskMap, task_map
from lgx.training.callbacks.place import run_folder


class DrawTaskMap(Callback):
    """After every validation of a hypernetwork that is told of two tasks or more, map its tasks (TAL, Fig. 3).

    ``task_map`` in TensorBoard shows the method's architecture with 3 to 12 layers and heads of one size under every
    task, ``val/silhouette`` says how well the tasks lie apart, and the last map is kept as ``task_map.svg`` in the
    run's folder.
    """

    def __init__(self) -> None:
        self._map: TaskMap | None = None

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Embed the architectures on every process, all to the same result, and draw on the first."""
        if trainer.sanity_checking or run_folder(trainer) is None or not isinstance(pl_module, HypernetMethod):
            return
        embeddings = {task: pl_module.task_embedding(task) for task in pl_module.tasks}
        told = {task: embedding for task, embedding in embeddings.items() if embedding is not None}
        if len(told) < 2:
            return
        base = pl_module.architecture.replace(num_classes=pl_module.config.num_classes)
        self._map = task_map(pl_module.hypernet, told, [base.replace(depth=depth) for depth in DEPTHS])
        if self._map.silhouette is not None:
            pl_module.log("val/silhouette", self._map.silhouette, sync_dist=True)
        if not trainer.is_global_zero:
            return
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                from lgx.results.figures import task_figure

                logger.experiment.add_figure("task_map", task_figure(self._map), trainer.global_step)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the last map."""
        folder = run_folder(trainer)
        if self._map is None or folder is None or not trainer.is_global_zero:
            return
        from lgx.results.figures import task_figure, to_svg

        with atomic_path(folder / "task_map.svg") as temporary:
            temporary.write_text(to_svg(task_figure(self._map), "tasks"), encoding="utf-8")
