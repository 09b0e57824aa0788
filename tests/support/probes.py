"""Callbacks that tests add to runs in other processes."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import torch
from lightning.pytorch import Callback


class KillAt(Callback):
    """Kill the process at a step, before or after its update, or in a validation."""

    def __init__(self, step: int, moment: str = "before_update", rank: int = 0) -> None:
        self.step, self.moment, self.rank = step, moment, rank

    def _kill(self, trainer, moment):
        if (self.moment, self.rank) == (moment, trainer.global_rank) and trainer.global_step >= self.step:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self._kill(trainer, "before_update")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self._kill(trainer, "after_update")

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self._kill(trainer, "validation")


class RecordRank(Callback):
    """Write each rank's final parameters, batches and validation figures."""

    def __init__(self, folder: str) -> None:
        self.folder, self.seen = Path(folder), []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen.append(float(batch.inputs.double().sum()))

    def on_fit_end(self, trainer, pl_module):
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.save(pl_module.state_dict(), self.folder / f"rank{trainer.global_rank}.pt")
        values = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
        text = json.dumps({"seen": self.seen, **values})
        (self.folder / f"rank{trainer.global_rank}.json").write_text(text)


class SignalAt(Callback):
    """Send a signal to this process, or to its group, between backward pass and update of a step."""

    def __init__(self, step: int, number: int, rank: int = 0, group: bool = False) -> None:
        self.step, self.number, self.rank, self.group = step, number, rank, group

    def on_after_backward(self, trainer, pl_module):
        if trainer.global_step == self.step and trainer.global_rank == self.rank:
            if self.group:
                os.killpg(0, self.number)
                time.sleep(0.5)  # loader processes of the group would be gone
            else:
                os.kill(os.getpid(), self.number)


class SignalWhenBuilt(Callback):
    """Send SIGUSR1 to this process before the trainer exists."""

    def __init__(self) -> None:
        assert callable(signal.getsignal(signal.SIGUSR1)), "the signal would end this process"
        os.kill(os.getpid(), signal.SIGUSR1)


class SlowSteps(Callback):
    """Sleep LGX_TEST_STEP_SECONDS in every step; the file ``starts`` of the run has the first step of each process."""

    def on_train_start(self, trainer, pl_module):
        if trainer.is_global_zero:
            with (Path(trainer.default_root_dir) / "starts").open("a") as file:
                file.write(f"{trainer.global_step}\n")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        time.sleep(float(os.environ.get("LGX_TEST_STEP_SECONDS", 0)))


class KillWorker(Callback):
    """Kill a data loader worker in the second step."""

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        if trainer.global_step == 1:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)


class RecordBatches(Callback):
    """Write what each rank trains and validates on, before it is mixed, and the weights of the start."""

    def __init__(self, file: str) -> None:
        self.file, self.start = Path(file), None
        self.trained, self.validated = [], {}

    def on_train_start(self, trainer, pl_module):
        self.first = trainer.global_step
        self.start = {name: tensor.clone() for name, tensor in pl_module.network.state_dict().items()}

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.trained.append((trainer.current_epoch, batch_idx, batch.inputs.clone(), batch.targets.clone()))

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        self.validated[batch_idx] = batch.inputs.clone(), batch.targets.clone()

    def on_train_end(self, trainer, pl_module):
        found = {"start": self.start, "trained": self.trained, "validated": [*self.validated.values()]}
        torch.save(found, self.file.with_name(f"{self.file.name}-{self.first:03d}-{trainer.global_rank}.pt"))
