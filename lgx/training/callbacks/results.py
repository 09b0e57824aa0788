"""Save what a run is and what it measures.

- ``SaveConfig``: its identity and configuration.
- ``SaveResults``: rows of ``results.csv``.
- ``SavePredictions``: what ``lgx predict`` predicts.
- ``RunProbe``: how well the features of a network serve a probe, in place of its head.
"""

import csv
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from data_modules.base import TaskDataModule
from lgx.components.features import Probe, gathered
from lgx.components.sharding import ShardedStrategy
from lgx.core.batch import Batch
from lgx.core.predictions import prediction_cells
from lgx.core.provenance import commit, config_hash, hardware
from lgx.core.readable import in_cells
from lgx.core.rows import UNLISTED, Row, add_rows
from lgx.core.seed import run_seed
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.safety import load_plain
from lgx.methods.base import Method
from lgx.training.lightning_internals import callbacks_of
from lgx.training.run_folder import best_checkpoint, run_folder
from lgx.training.same_run import IDENTITY, RunIdentity, flat_options, package_versions


class SaveConfig(Callback):
    """Save a run's identity in every checkpoint, its configuration as ``config.yaml`` and as hyper-parameters.

    Only ``fit`` saves it: an evaluation must not change the configuration of the run that it evaluates.

    Args:
        identity: Must be complete before training begins on the first process, which writes checkpoints.
        resumed: Whether the run resumes from a checkpoint in its folder.
    """

    def __init__(self, identity: RunIdentity, resumed: bool) -> None:
        self.identity = identity
        self.resumed = resumed

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the configuration on the first process."""
        commit()  # cached now: the repository may change during the run
        folder = run_folder(trainer)
        if folder is None or not trainer.is_global_zero:
            return
        about = "".join(f"# {name} {version}\n" for name, version in package_versions().items())
        with atomic_path(folder / "config.yaml") as temporary:
            temporary.write_text(about + self.identity.config, encoding="utf-8")
        for logger in trainer.loggers if not self.resumed else ():  # MLflow refuses changes of a parameter
            logger.log_hyperparams(logged_options(self.identity.config))

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the identity."""
        checkpoint[IDENTITY] = asdict(self.identity)


def logged_options(text: str) -> dict[str, Any]:
    """The flattened configuration, without null values, and without loggers, which may contain a password."""
    return {
        key: value if isinstance(value, int | float | str | bool) else str(value)
        for key, value in flat_options(load_plain(text)).items()
        if value is not None and not key.startswith("trainer.logger")
    }


_BEST = "hp_metric"
"""Lightning's name of the score that TensorBoard's table of hyper-parameters shows."""


def _common(trainer: Trainer, method: Method, split: str, epochs: int) -> "partial[Row]":
    """A row with the values that all rows of an evaluation share; its origin: commit, configuration, hardware."""
    config = next((config_hash(saved.identity.config) for saved in callbacks_of(trainer, SaveConfig)), "")
    on_gpu = trainer.strategy.root_device.type == "cuda"
    return partial(
        Row,
        method=method.label,
        split=split,
        epochs=epochs,
        seed=run_seed(),
        run=str(run_folder(trainer) or ""),
        commit=commit(),
        config=config,
        hardware=hardware(on_gpu),
    )


def measured_rows(trainer: Trainer, method: Method, split: str) -> list[Row]:
    """The rows of the last validation or test.

    Args:
        trainer: The trainer.
        method: The evaluated method, with its task.
        split: ``val`` or ``test``.
    """
    # In fit, validation runs before current_epoch counts the epoch.
    epochs = trainer.current_epoch + 1 if trainer.state.fn == "fit" else method.epochs_trained
    if method.evaluates_starts:
        epochs = 0
    rows: list[Row] = []
    row = _common(trainer, method, split, epochs)
    metrics = trainer.callback_metrics
    for evaluation in method.evaluations(split):
        task, tag = evaluation.task, evaluation.tag
        number = metrics.get(f"{tag}/n")
        if number is None:
            continue  # limit_val_batches left no batch of this task
        label = method.label if evaluation.is_trained else f"{method.label}{UNLISTED}"
        of_network = partial(row, method=label, architecture=evaluation.architecture, task=task, n=int(number))
        rows += [
            of_network(metric=name, value=float(metrics[f"{tag}/{name}"]))
            for name in method.reported_metrics(method.tasks[task], split)
        ]
    return rows


class SaveResults(Callback):
    """Add rows to ``results.csv`` in the run's folder: each metric of a validation or test, each epoch's training loss.

    The training loss is the mean over the epoch's examples of all processes, each with the weights of its step. The
    checkpoint contains each process's mean of an interrupted epoch, so that a resumed run writes the same row. Methods
    that evaluate untrained descendants have no such row, because their rows describe the descendants, not the trained
    network.

    Attributes:
        epoch_loss: Mean training loss of the last epoch over the examples of all processes.
    """

    def __init__(self) -> None:
        self.epoch_loss: float | None = None
        self._epoch = -1
        self._seen = 0
        self._mean: Any = 0.0  # a tensor after the first batch, so that no step waits for the device
        self._shares: list[tuple[int, float]] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Continue an interrupted epoch with this process's share of it."""
        shares = self._shares
        self._shares = []
        if len(shares) == trainer.world_size:
            self._seen, self._mean = shares[trainer.global_rank]
        elif shares:  # the number of processes has changed: the first process continues the sum of all
            seen = sum(count for count, _ in shares)
            mean = sum(count * mean for count, mean in shares) / max(1, seen)
            self._seen, self._mean = (seen, mean) if trainer.is_global_zero else (0, 0.0)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Add the batch to the epoch's mean."""
        if self._epoch != trainer.current_epoch:
            self._epoch = trainer.current_epoch
            self._seen = 0
            self._mean = 0.0
        assert isinstance(pl_module, Method)
        self._seen += len(batch.inputs)
        loss = pl_module.step_losses["loss"]
        self._mean = self._mean + (loss - self._mean) * (len(batch.inputs) / self._seen)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add a row of the training split."""
        if not isinstance(pl_module, Method) or self._epoch != trainer.current_epoch:
            return
        sums = torch.as_tensor([self._mean * self._seen, self._seen], device=pl_module.device)
        total, seen = trainer.strategy.reduce(sums, reduce_op="sum").tolist()
        self.epoch_loss = total / seen
        folder = run_folder(trainer)
        if pl_module.evaluates_starts or folder is None or not trainer.is_global_zero:
            return
        evaluations = pl_module.evaluations("train")
        if len(evaluations) > 1:
            return  # an epoch over several tasks has no loss of one of them
        task, architecture, *_ = evaluations[0]
        row = _common(trainer, pl_module, "train", trainer.current_epoch + 1)
        measured = row(architecture=architecture, task=task, metric="loss", value=self.epoch_loss, n=int(seen))
        add_rows(folder / "results.csv", [measured])

    def state_dict(self) -> dict[str, Any]:
        """Mean and number of examples of the epoch so far on this process."""
        return {"epoch": self._epoch, "seen": self._seen, "mean": float(self._mean)}

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the shares of all processes; only the first process writes the checkpoint."""
        if trainer.world_size > 1:
            gather = trainer.strategy.all_gather
            device = pl_module.device
            seen = gather(torch.tensor(self._seen, device=device)).tolist()
            mean = gather(torch.tensor(float(self._mean), device=device)).tolist()
            checkpoint["callbacks"][self.state_key]["shares"] = [list(share) for share in zip(seen, mean, strict=True)]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue an interrupted epoch."""
        self._epoch = state_dict["epoch"]
        self._seen = state_dict["seen"]
        self._mean = state_dict["mean"]
        self._shares = [(seen, mean) for seen, mean in state_dict.get("shares", [(self._seen, self._mean)])]

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add rows of the validation split."""
        self._save(trainer, pl_module, "val")

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the best validation score, for TensorBoard's HPARAMS tab among others."""
        best = best_checkpoint(trainer)
        if best is not None and best.best_model_score is not None:
            for logger in trainer.loggers:
                logger.log_metrics({_BEST: float(best.best_model_score)}, step=trainer.global_step)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add rows of the test split."""
        self._save(trainer, pl_module, "test")

    def _save(self, trainer: Trainer, method: LightningModule, split: str) -> None:
        folder = run_folder(trainer)
        if trainer.sanity_checking or folder is None or not trainer.is_global_zero:
            return
        if not isinstance(method, Method) or method.task is None:
            return
        add_rows(folder / "results.csv", measured_rows(trainer, method, split))


class SavePredictions(Callback):
    """Save ``predictions.csv`` in the run's folder: index of the example, predicted class, its probability, true class.

    The column ``file`` follows where the data module knows the files of its examples. For several labels per example,
    the file has one column of probabilities per label. With several processes, each process saves its share as
    ``predictions.rank<r>.csv``.
    """

    def __init__(self) -> None:
        self.targets: list[Tensor] = []

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *numbers: int
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
                f"{len(logits)} examples; expected one index per example"
            )
        names = list(pl_module.task.class_names) if pl_module.task else []
        several = pl_module.architecture.kind == "multilabel"
        columns = ["class", "name", "probability"]
        if several:
            columns = names or [str(label) for label in range(logits.shape[1])]
        true: list[tuple[object, ...]] = [()] * len(logits)
        if pl_module.task and pl_module.task.is_labeled and not several:
            columns += ["true", "true_name"]
            true = [(label, names[label] if names else "") for label in torch.cat(self.targets).tolist()]
        files = module.predict_files
        path = folder / ("predictions.csv" if world == 1 else f"predictions.rank{rank}.csv")
        with (
            atomic_path(path) as temporary,
            temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(in_cells(["index", *columns, *(["file"] if files else [])]))
            for index, row, truth in zip(indices, prediction_cells(logits, names, several), true, strict=True):
                writer.writerow(in_cells([index, *row, *truth, *([files[index]] if files else [])]))
        print(f"predicted  {path}")


class RunProbe(Callback):
    """Fit a probe to the features of the training images, and measure its accuracy on the test images.

    Training images are read as in evaluation: once each, without augmentation. The accuracy is logged as
    ``test/knn_acc`` or ``test/linear_acc``, with the number of test images ``test/n``.

    Args:
        probe: The probe.
    """

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._of_training: tuple[Tensor, Tensor] = (torch.empty(0), torch.empty(0))

    def check(self, method: Method, data: TaskDataModule) -> None:
        """Refuse networks and tasks without features and classes of whole images."""
        name = f"--probe {self.probe.name}"
        task = data.task
        if task.kind != "classification":
            raise UserError(f"{name}: needs classes of whole images, but task {task.name} is {task.kind}")
        if len(data.all_tasks) > 1:
            raise UserError(f"{name}: needs one data set, but the run has {', '.join(data.all_tasks)}; name one")
        if not method.plain_network:
            raise UserError(
                f"{name}: the network of {method.method} is not an ordinary network of its architecture; write a "
                "descendant with `lgx init`, and test it with --model Finetune"
            )

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Read the training images; let the method return features instead of metrics."""
        if isinstance(trainer.strategy, ShardedStrategy):
            raise UserError(f"--probe {self.probe.name}: does not work with trainer.strategy sharded; use ddp")
        assert isinstance(pl_module, Method)
        trainer.datamodule.setup("fit")  # type: ignore[attr-defined]
        pl_module.probe = self.probe

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compute the features of the training images."""
        assert isinstance(pl_module, Method)
        data: TaskDataModule = trainer.datamodule  # type: ignore[attr-defined]
        features = []
        labels = []
        with torch.no_grad(), trainer.precision_plugin.test_step_context():
            for batch in data.reference_dataloader(self.probe.most):
                moved: Batch = trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(batch))
                features.append(pl_module.features(moved.inputs).cpu())
                labels.append(moved.targets.cpu())
        self._of_training = torch.cat(features), torch.cat(labels)
        pl_module.probed = []

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Fit the probe on the first process with the features of all processes, and log its accuracy."""
        assert isinstance(pl_module, Method)
        features, labels = zip(*pl_module.probed, strict=True)
        shares = gathered((*self._of_training, torch.cat(features), torch.cat(labels)), trainer.world_size)
        trained, trained_labels, tested, tested_labels = (torch.cat(parts) for parts in zip(*shares, strict=True))
        result: Any = None
        if trainer.is_global_zero:
            try:
                result = self.probe.accuracy(trained, trained_labels, tested, tested_labels)
            except UserError as error:  # all processes end with it
                result = str(error)
        result = trainer.strategy.broadcast(result)
        if isinstance(result, str):
            raise UserError(result)
        pl_module.log(f"test/{self.probe.metric}", result, rank_zero_only=True)
        pl_module.log("test/n", float(len(tested)), rank_zero_only=True)
