"""Save the predictions of ``lgx predict``."""

import csv
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from lgx.core.csv_cells import escape_cell
from lgx.core.predictions import predicted_classes
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.methods.base import Method
from lgx.training.run_folder import run_folder


class SavePredictions(Callback):
    """Save ``predictions.csv`` in the run's folder: index of the example, predicted class, its probability, true class.

    The column ``file`` follows where the data module knows the files of its examples. Where an example may have several
    labels, the file has a column for each label, with its probability.
    Of several processes each saves its share as ``predictions.rank<r>.csv``.
    """

    def __init__(self) -> None:
        self.targets: list[Tensor] = []

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the true classes."""
        self.targets.append(batch.targets.cpu())

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the file."""
        batches = trainer.predict_loop.predictions
        folder = run_folder(trainer)
        if folder is None or not isinstance(pl_module, Method) or not batches:
            return
        logits = torch.cat(batches).cpu()  # (N, K)
        rank, world = trainer.global_rank, trainer.world_size
        module = pl_module.data_module()
        indices = module.predict_indices[: len(logits)]  # trainer.limit_predict_batches
        if len(indices) < len(logits):
            raise UserError(
                f"predict_indices of {type(module).__name__} has {len(indices)} entries, but predict_dataloader gave "
                f"{len(logits)} examples; expected the index of every example"
            )
        names = [escape_cell(name) for name in pl_module.task.class_names] if pl_module.task else []
        several = pl_module.architecture.kind == "multilabel"
        true = torch.cat(self.targets).tolist() if pl_module.task and pl_module.task.is_labeled else []
        table = _of_labels(logits.sigmoid(), names) if several else _of_classes(logits, names, true)
        files = module.predict_files
        path = folder / ("predictions.csv" if world == 1 else f"predictions.rank{rank}.csv")
        with (
            atomic_path(path) as temporary,
            temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(["index", *next(table), *(["file"] if files else [])])
            for index, row in zip(indices, table, strict=True):
                writer.writerow([index, *row, *([escape_cell(files[index])] if files else [])])
        print(f"predicted  {path}")


def _of_classes(logits: Tensor, names: Sequence[str], true: Sequence[int]) -> Iterator[Sequence[object]]:
    """Header and rows: the most probable class of each example, and the true one where it is known."""
    yield "class", "name", "probability", *(("true", "true_name") if true else ())
    labels = predicted_classes(logits)
    probabilities = logits.softmax(dim=1).gather(1, labels[:, None])
    for row, (label, value) in enumerate(zip(labels.tolist(), probabilities.flatten().tolist(), strict=True)):
        known = (true[row], names[true[row]] if names else "") if true else ()
        yield label, names[label] if names else "", f"{value:.6f}", *known


def _of_labels(probabilities: Tensor, names: Sequence[str]) -> Iterator[Sequence[object]]:
    """Header and rows: the probability of every label."""
    yield names or [str(label) for label in range(probabilities.shape[1])]
    for row in probabilities.tolist():
        yield [f"{value:.6f}" for value in row]
