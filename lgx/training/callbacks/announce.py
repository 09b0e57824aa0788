"""Print what will be trained, and how, before the first step."""

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.architectures import name_of
from lgx.core.provenance import hardware
from lgx.methods.base import Method


class Announce(Callback):
    """Print architecture, effective batch, learning rate and number of steps; log them as hyper-parameters."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print and log."""
        if not isinstance(pl_module, Method) or not trainer.is_global_zero:
            return
        per_process = pl_module.data_module().batch_size
        processes, accumulate = trainer.world_size, trainer.accumulate_grad_batches
        effective = per_process * processes * accumulate
        rates = sorted({float(g.get("initial_lr", g["lr"])) for o in trainer.optimizers for g in o.param_groups})
        parameters = sum(p.numel() for p in pl_module.parameters() if p.requires_grad)
        frozen = sum(p.numel() for p in pl_module.parameters() if not p.requires_grad)
        if trainer.global_step:
            print(f"resumed    after step {trainer.global_step:,}, in epoch {trainer.current_epoch + 1}")
        print(
            f"method     {pl_module.label} on {name_of(pl_module.architecture)}: {parameters:,} trainable parameters"
            f"{f', {frozen:,} frozen' if frozen else ''}\n"
            f"device     {hardware(trainer.strategy.root_device.type == 'cuda')}\n"
            f"batch      {effective} effective = {per_process} x {processes} process(es) x {accumulate} accumulated\n"
            f"rate       {', '.join(f'{r:g}' for r in rates)} as configured, not rescaled by the batch\n"
            f"steps      {pl_module.known_steps() or 'until stopped'}, precision {trainer.precision}\n"
            f"run        {trainer.default_root_dir}",
            flush=True,
        )
        sizes: dict[str, float] = {"effective_batch": effective, "trainable_parameters": parameters}
        for logger in trainer.loggers:
            logger.log_metrics(sizes, step=trainer.global_step)
