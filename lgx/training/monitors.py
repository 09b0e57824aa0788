"""What callbacks watch: checked before the first step, because Lightning looks for it after a whole epoch."""

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from lgx.core.task import shared_metric
from lgx.errors import UserError
from lgx.methods.base import Method


def check_monitors(trainer: Trainer, method: Method) -> None:
    """Refuse a callback that watches what is not measured, or takes the worst for the best.

    Args:
        trainer: The trainer.
        method: The method, which knows its tasks. One of another package may log any values.
    """
    known = {f"val/{name}" for name in (shared_metric(method.tasks.values()), *method.other_values)}
    known |= set() if method.evaluates_starts else {"val/loss"}
    known |= {f"{method.tag('val', name)}/{task.metric}" for name, task in method.tasks.items()}
    for evaluation in method.evaluations("val"):
        metrics = method.reported_metrics(method.tasks[evaluation.task], "val")
        known |= {f"{evaluation.tag}/{name}" for name in (*metrics, *method.other_values)}
    known = {"train/loss", *(known if trainer.limit_val_batches else ())}
    is_own = type(method).__module__.startswith("lgx.")
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        monitor, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
        place = f"trainer.callbacks: {type(callback).__name__}"
        if not isinstance(monitor, str) or (isinstance(callback, ModelCheckpoint) and not trainer.limit_val_batches):
            continue
        if is_own and monitor not in known and not monitor.startswith("train/loss_"):
            raise UserError(f"{place} watches {monitor}; this run measures {', '.join(sorted(known))}")
        best = "min" if monitor.rpartition("/")[2].startswith("loss") else "max"
        if mode in ("min", "max") and mode != best:
            raise UserError(f"{place} watches {monitor} with mode {mode}, but {best} is the best; give mode {best}")
