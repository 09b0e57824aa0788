"""Which weights a run ends with, and their learngene.

- ``BestCheckpoint`` keeps the best ones of its validations.
- ``RunWeights`` chooses between the last and the best ones when training ends.
"""

from collections import defaultdict
from dataclasses import replace
from math import hypot, inf, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, cast

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint, WeightAveraging
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torch import Tensor

from lgx.artifacts.checkpoints import FINAL, LAST, load_checkpoint
from lgx.artifacts.source_names import FINAL_LEARNGENE
from lgx.components.class_metrics import BalancedAccuracy
from lgx.core.readable import is_share, measured, tag_in_words
from lgx.core.task import BALANCED
from lgx.methods.base import Method
from lgx.training.callbacks.figures import draw
from lgx.training.lightning_internals import callbacks_of
from lgx.training.run_folder import best_checkpoint, run_folder

Kind = Literal["best", "last"]
_ENDED = 0.01
"""A schedule has ended if the learning rate is at most this share of its maximum."""


class BestCheckpoint(ModelCheckpoint):
    """Keep the best checkpoint; equal scores: the lower validation loss; equal losses: the later epoch.

    Small validation sets often give equal scores, and the earliest of these epochs has learned least.

    Attributes:
        last_score: Score of the last validation; None before it.
        validated: Step of the last validation.
        examples: Examples of a validation; several networks of one task are measured on the same ones.
    """

    last_score: float | None = None
    examples = 0
    validated = -1
    _best_loss = inf
    _best_error = 0.0

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record the validated step."""
        self.validated = trainer.global_step
        super().on_validation_end(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep only validated weights: a run that ends within an epoch still has the score of the epoch before."""
        if not trainer.enable_validation or self.validated == trainer.global_step:
            super().on_train_epoch_end(trainer, pl_module)

    def check_monitor_top_k(self, trainer: Trainer, current: Tensor | None = None) -> bool:
        """Whether this score is kept; ``trainer`` has the validation's metrics."""
        metrics = trainer.callback_metrics
        is_better = super().check_monitor_top_k(trainer, current)
        loss = float(metrics.get("val/loss", inf))
        if current is None:
            return is_better
        self.last_score = float(current)
        of_tasks = defaultdict[str, int](int)
        method = cast(Method, trainer.lightning_module)
        for task, _, tag, *_ in method.evaluations("val"):
            of_tasks[task] = max(of_tasks[task], int(metrics.get(f"{tag}/n", 0)))
        self.examples = sum(of_tasks.values())
        if self.save_top_k == 1 and self.best_model_score is not None and current == self.best_model_score:
            is_better = loss <= self._best_loss
        if is_better:
            self._best_loss = loss
            self._best_error = _error_of_balanced_accuracy(method)
        return is_better

    def state_dict(self) -> dict[str, Any]:
        """Lightning's state, with the values that decide equal scores and the run's weights."""
        errors = {"best_loss": self._best_loss, "best_error": self._best_error, "validated": self.validated}
        return {**super().state_dict(), **errors, "last_score": self.last_score, "examples": self.examples}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue with the state of an interrupted run."""
        former = state_dict["dirpath"]
        now = str(self.dirpath)
        if Path(now, Path(state_dict["best_model_path"]).name).is_file():  # the folder was moved; Lightning compares it
            state_dict = {name: _moved(value, former, now) for name, value in state_dict.items()}
        super().load_state_dict(state_dict)
        self._best_loss = float(state_dict["best_loss"])
        self._best_error = float(state_dict["best_error"])
        self.validated = int(state_dict["validated"])
        self.last_score = state_dict["last_score"]
        self.examples = int(state_dict["examples"])

    @property
    def margin(self) -> float:
        """Standard error of the best score if it is a share of examples, else 0."""
        score = self.best_model_score
        metric = str(self.monitor).split("/")[-1]
        if score is None or not self.examples or not is_share(metric):
            return 0.0
        if metric == BALANCED:
            return self._best_error
        share = min(max(float(score), 0.0), 1.0)
        return sqrt(share * (1 - share) / self.examples)


def _moved(value: Any, former: str, now: str) -> Any:
    """A value of Lightning's state with its paths in another folder."""
    if isinstance(value, dict):
        return {_moved(path, former, now): score for path, score in value.items()}
    return value.replace(former, now, 1) if isinstance(value, str) else value


class RunWeights(Callback):
    """Put the run's weights into the network when training ends, before it is tested, and save their learngene.

    After a finished schedule: the last weights, unless the best are better by more than one standard error of the
    validation score; also if the last were not validated. Otherwise, e.g. after an early stop or with a constant rate:
    the best weights. Averaged, sharded or finished weights (:attr:`Method.finishes`): always the last.

    Attributes:
        kind: ``best`` or ``last``; also in the run's summary.
        path: The checkpoint; None if none is saved.
        words: Description for readers: ``epoch 8, last``.
        other: The other weights if they differ: ``; best: val accuracy 61.2 % in epoch 5``.
        metrics: Validation score of the run's weights, by its tag.
    """

    def __init__(self) -> None:
        self.kind: Kind = "last"
        self.path: Path | None = None
        self.words = self.other = ""
        self.metrics: dict[str, float] = {}

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Choose, load the best weights if they are the run's, and save ``final.learngene.safetensors``."""
        if isinstance(pl_module, Method) and (folder := run_folder(trainer)) is not None:
            self._choose(trainer, pl_module, folder)
            draw(trainer, folder, pl_module.with_run_weights(folder))
            if trainer.is_global_zero:
                self._save_learngene(pl_module, folder)

    def _choose(self, trainer: Trainer, pl_module: Method, folder: Path) -> None:
        best = best_checkpoint(trainer)
        epoch = pl_module.epochs_trained or trainer.current_epoch
        saved = (folder / "checkpoints" / name for name in (FINAL, LAST))
        self.path = next((file for file in saved if file.is_file()), None)
        self.words = f"epoch {epoch}, last"
        if not isinstance(best, BestCheckpoint) or best.best_model_score is None:
            return
        tag = str(best.monitor)
        score = float(best.best_model_score)
        is_validated = best.validated == trainer.global_step and not pl_module.finishes
        last = best.last_score if is_validated else None  # of these weights
        scores = {"best": score, "last": last}
        if _may_load(trainer, pl_module, best):
            checkpoint = load_checkpoint(best.best_model_path)
            of_best = checkpoint["lgx"]["epochs"]
            is_same = checkpoint["global_step"] == trainer.global_step
            is_level = last is not None and abs(score - last) <= best.margin
            if is_same:
                self.words += " and best"
            elif _has_ended(trainer) and (is_level or last is None):
                words = "level with the last" if is_level else "the last were not validated"
                self.other = f"; best: {_shown(tag, score)} in epoch {of_best}, {words}"
            else:
                pl_module.load_state_dict(checkpoint["state_dict"])
                pl_module.epochs_trained = of_best  # the tested weights, as in a test of the checkpoint
                self.kind = "best"
                self.path = Path(best.best_model_path)
                self.words = f"epoch {of_best}, best"
                self.other = f"; last: {_shown(tag, last)} in epoch {epoch}"
        chosen = scores[self.kind]
        if chosen is not None and pl_module.learngene_of_best:
            self.metrics = {tag: chosen}

    def _save_learngene(self, method: Method, folder: Path) -> None:
        prefix = "network."
        state = method.state_dict() if self.path is None else load_checkpoint(self.path)["state_dict"]
        network = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        learngene = method.learngene(network)
        if learngene is not None:
            task = learngene.task or (method.task.to_dict() if method.task else {})
            complete = replace(learngene, task=task, metrics=self.metrics or learngene.metrics)
            path = folder / FINAL_LEARNGENE
            complete.save(path)
            print(f"{complete.describe()}\n  file      {path}")


def _error_of_balanced_accuracy(method: Method) -> float:
    """Standard error of the last validation's balanced accuracy, the mean over tasks.

    That of a task is the mean over its networks: they share its images, so their errors are not independent.
    """
    metrics = [metric for name, metric in method.named_modules() if name.startswith("eval_metrics.val")]
    errors = [metric.error for metric in metrics if isinstance(metric, BalancedAccuracy)]
    evaluations = method.evaluations("val")
    of_tasks = defaultdict[str, list[float]](list)
    for (task, *_), error in zip(reversed(evaluations), reversed(errors), strict=False):  # a family's first is unused
        of_tasks[task].append(error)
    return hypot(*map(fmean, of_tasks.values())) / max(1, len(of_tasks))


def _shown(tag: str, score: float | None) -> str:
    return f"{tag_in_words(tag)} {'unknown' if score is None else measured(score, tag)}"


def _may_load(trainer: Trainer, method: Method, best: BestCheckpoint) -> bool:
    """Whether the best weights may become the run's."""
    is_whole = isinstance(trainer.strategy, SingleDeviceStrategy | DDPStrategy)
    is_saved = bool(best.best_model_path) and Path(best.best_model_path).is_file()
    is_last = bool(callbacks_of(trainer, WeightAveraging)) or method.finishes
    return is_saved and is_whole and not is_last and method.learngene_of_best


def _has_ended(trainer: Trainer) -> bool:
    """Whether the learning rates have decayed to nearly zero."""
    groups = [group for optimizer in trainer.optimizers for group in optimizer.param_groups]
    return bool(groups) and all(group["lr"] <= _ENDED * group.get("initial_lr", group["lr"]) for group in groups)
