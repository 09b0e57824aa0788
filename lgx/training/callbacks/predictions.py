"""Save the predictions of ``lgx predict``."""

import csv

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.core.csv_cells import escape_cell
from lgx.core.files import atomic_path
from lgx.methods.base import Method
from lgx.training.run_folder import run_folder


class SavePredictions(Callback):
    """Save ``predictions.csv`` in the run's folder: index of the example, predicted class, its probability.

    The column ``file`` follows where the data module knows the files of its examples.
    Of several processes each saves its share as ``predictions.rank<r>.csv``.
    """

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the file."""
        batches = trainer.predict_loop.predictions
        folder = run_folder(trainer)
        if folder is None or not isinstance(pl_module, Method) or not batches:
            return
        probabilities = torch.cat(batches).cpu()  # (N, K)
        rank, world = trainer.global_rank, trainer.world_size
        indices = pl_module.data_module().predict_indices[: len(probabilities)]  # trainer.limit_predict_batches
        names = pl_module.task.class_names if pl_module.task else ()
        files = pl_module.data_module().predict_files
        path = folder / ("predictions.csv" if world == 1 else f"predictions.rank{rank}.csv")
        with (
            atomic_path(path) as temporary,
            temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(["index", "class", "name", "probability", *(["file"] if files else [])])
            for index, value, chosen in zip(indices, *probabilities.max(dim=-1), strict=True):
                label = int(chosen)
                row = [index, label, escape_cell(names[label]) if names else "", f"{float(value):.6f}"]
                writer.writerow([*row, *([escape_cell(files[index])] if files else [])])
        print(f"predicted  {path}")
