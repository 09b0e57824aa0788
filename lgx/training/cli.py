"""``lgx fit|validate|test|predict``: Lightning's CLI with lgx's defaults, folder of the run, and callbacks."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from data_modules import TaskDataModule
from lgx.components.probes import Probe
from lgx.errors import UserError
from lgx.host.failures import is_disk_full, os_reason
from lgx.host.launcher import check_job
from lgx.host.safety import load_plain, non_finite_allowed
from lgx.host.signals import STOP
from lgx.host.startup import collect_as_usual, keep_freed_memory
from lgx.methods.base import Method
from lgx.training.callbacks import (
    FinalWeights,
    KeepContract,
    LastCheckpoint,
    Preemption,
    RunProbe,
    SaveConfig,
    TrainingHealth,
)
from lgx.training.callbacks.contract import code_versions
from lgx.training.callbacks.report import end_of_run
from lgx.training.claim import Claim, DeleteReplaced
from lgx.training.configuration import (
    configuration_text,
    explained,
    instantiate,
    make_parser,
    method_arguments,
    parse_configuration,
    refused_values,
)
from lgx.training.contract import RunRecord, check_data
from lgx.training.loggers import RunLoggers, wanted_recipes
from lgx.training.own_data import check_own_data
from lgx.training.restoring import blame_checkpoint
from lgx.training.run_callbacks import run_callbacks
from lgx.training.run_folder import configured_folder, configured_place, find_checkpoint
from lgx.training.sources import resolve_sources
from lgx.training.summary import write_summary
from lgx.training.trainer_parts import as_list, with_averaging, with_own_plugins


def run(argv: list[str]) -> None:
    """Run a training command.

    Args:
        argv: ``fit``, ``validate``, ``test`` or ``predict`` and its options.

    Raises:
        UserError: For a user's mistake.
    """
    check_job()
    try:
        with ExitStack() as held, STOP.requeue_noted(), _command_line(argv), explained():
            LgxCLI(argv[0], argv[1:], held).run()
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # Lightning ends an interrupted run with exit(1)
            raise KeyboardInterrupt from end
        raise


class LgxCLI(LightningCLI):
    """Lightning's CLI for one command, with lgx's parser, loggers and best checkpoint.

    A run lives in ``<runs_dir>/<experiment>/<name>/seed<k>``, which does not change when a job is requeued.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        argv: The command line without the command.
        held: Releases the lock of the run's folder when the command ends.
    """

    def __init__(self, command: str, argv: Sequence[str], held: ExitStack) -> None:
        self.command, self.argv, self.held = command, argv, held
        super().__init__(
            Method,
            TaskDataModule,
            save_config_callback=SaveConfig,
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,
            run=False,
        )

    # -- what Lightning's constructor calls, in this order --------------------------------------------------------

    def setup_parser(
        self, add_subcommands: bool, main_kwargs: dict[str, Any], subparser_kwargs: dict[str, Any]
    ) -> None:
        """Make the parser."""
        self.parser = self.run_parser = make_parser(self.command)

    def parse_arguments(self, parser: Any, args: Any) -> None:
        """Parse the command line."""
        self.config = parse_configuration(self.run_parser, self.argv)

    def _dump_config(self) -> None:
        """Keep the configuration as plain values, the hyper-parameters of checkpoints.

        Lightning's own checks the configuration once more and reads YAML in Python, a sixth of a short run.
        """
        if not hasattr(self, "config_dump"):
            self.config_dump = load_plain(
                self.parser.dump(self.config, skip_link_targets=False, skip_unset=False, skip_validation=True)
            )

    def before_instantiate_classes(self) -> None:
        """Lock the run's folder, find the checkpoint and compare it, before anything is built."""
        config = self.config
        self.run_dir = configured_folder(config)
        if not _has_gpu(config.trainer.accelerator):
            keep_freed_memory()
        elif config.trainer.precision is None:
            config.trainer.precision = "bf16-mixed"
        self.sources = resolve_sources(config, download=self.command == "fit" or config.untrained)
        if self.command == "fit":
            text = configuration_text(self.run_parser, config)
            self.contract = KeepContract(RunRecord(text, versions=code_versions(), files=self.sources.digests()))
        self.held.enter_context(non_finite_allowed(config.allow_non_finite))
        writes = self.command == "fit" and not config.trainer.fast_dev_run and _is_first_process()
        self.claim = self.held.enter_context(
            Claim(self.run_dir, resumes=config.ckpt_path == "last", overwrite=config.overwrite, writes=writes)
        )
        self.checkpoint = find_checkpoint(
            self.run_dir, self.command, config.ckpt_path, config.untrained, config.overwrite
        )
        if self.command == "fit":
            self.checkpoint = self.claim.check(self.checkpoint, self.contract.record)

    def instantiate_classes(self) -> None:
        """Build the data module, the method and the trainer."""
        self.config_init = instantiate(self.run_parser, self.sources.config)
        self.datamodule, self.model = self.config_init.data, self.config_init.model
        given = self.config_init.trainer.logger if self.command != "predict" else False
        recipes, place = wanted_recipes(given, self.config_init.logger), configured_place(self.config)
        continues = self.command != "fit" or (self.checkpoint is not None and self.checkpoint.is_in(self.run_dir))
        self.loggers = RunLoggers(recipes, place, continues, self.config.overwrite)
        with refused_values():
            self.trainer = self.instantiate_trainer()

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Add what every run has: progress bar, learning-rate curve, results, learngene, atomic checkpoints."""
        # What depends on the run's folder is set on the objects and not in the configuration: the configuration is
        # saved, and may be run again elsewhere.
        trainer = self.config_init.trainer
        trainer.default_root_dir = str(self.run_dir)
        # Without a file of its own in a trial run; the others start when the folder is claimed.
        trainer.logger = bool(self.loggers.recipes and trainer.fast_dev_run)
        best = self.config_init.checkpoint
        best.monitor = best.monitor or f"val/{self.datamodule.task.metric}"
        if best.mode == "max" and best.monitor.rpartition("/")[2].startswith("loss"):
            raise UserError(f"checkpoint.monitor: of {best.monitor} less is better; give --checkpoint.mode min, too")
        if best.dirpath is None:
            # Absolute: a run that is resumed from another folder must recognize its best checkpoint.
            best.dirpath = str(self.run_dir.resolve() / "checkpoints")
        given = trainer.callbacks = as_list(trainer.callbacks)
        self.health = TrainingHealth(self.config.allow_non_finite)
        final = FinalWeights(self.run_dir / "checkpoints")
        contract = [self.contract] if self.command == "fit" else []
        shown = run_callbacks(self.command, trainer, self.loggers)
        trainer.callbacks = [*with_averaging(given), *contract, self.health, final, *shown]
        if self.command == "test" and self.config.probe is not None:
            probe = RunProbe(Probe(self.config.probe, self.config.probe_k))
            probe.check(self.model, self.datamodule)
            trainer.callbacks.append(probe)
        trainer.plugins = with_own_plugins(trainer.plugins)
        if not trainer.fast_dev_run:
            # These come after the best checkpoint, whose state the last checkpoint saves.
            last = LastCheckpoint(self.run_dir / "checkpoints", self.config.save_every)
            self.trainer_defaults = {**self.trainer_defaults, "callbacks": [last, Preemption(last)]}
        built = super().instantiate_trainer(**kwargs)
        blame_checkpoint(built)
        return built

    def after_instantiate_classes(self) -> None:
        """Hand on the checkpoint that was found, and tell the method whether one follows."""
        self.config_init.ckpt_path = self.checkpoint.path if self.checkpoint else None
        self.model.skips_start = self.checkpoint is not None

    # -- running --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the command.

        Raises:
            UserError: For a user's mistake, and if the disk is full.
        """
        arguments = {name: self.config_init[name] for name in method_arguments(self.command)}
        if "verbose" in arguments:
            arguments["verbose"] = False  # Report prints the scores
        started = time.perf_counter()
        collect_as_usual()
        try:
            if self.command == "fit":
                if self.claim.is_finished(self.config.test_end):
                    print(f"finished   {self.run_dir}: nothing to do; --overwrite trains anew")
                    return
                self._before_fit()
            else:
                if _is_first_process():
                    check_own_data(self.datamodule, self.trainer, self.command)
                self.held.enter_context(self.loggers.started(self.trainer))
            getattr(self.trainer, self.command)(self.model, datamodule=self.datamodule, **arguments)
            if self.command == "fit":
                self._after_fit(started)
        except OSError as error:
            if not is_disk_full(error):
                raise
            place = self.run_dir if error.filename is None else Path(os.fsdecode(error.filename))
            reason = os_reason(error, place)  # now: the end of the run removes files
            raise UserError(
                f"cannot write {place}: {reason}; free some space, then resume with --ckpt_path last"
            ) from error

    def _before_fit(self) -> None:
        """Read the data, so that mistakes show before anything is replaced; test the start of a new run."""
        if self.claim.writes:
            self.loggers.check()
        if _is_first_process():
            self.datamodule.prepare_data()
            self.datamodule.setup("fit")
            if tested := self.config.test_start or self.config.test_end:
                self.datamodule.setup("test")
            check_own_data(self.datamodule, self.trainer, "fit", tested)
        if self.claim.writes:
            data, batch = self.datamodule.fingerprint(), self.datamodule.batch_size * self.trainer.world_size
            if self.claim.resumed is not None:
                check_data(self.claim.resumed, data, batch, self.run_dir)
            # Only this process writes checkpoints, so that the others need no complete record.
            self.contract.record = replace(self.contract.record, data=data, batch=batch)
        if self.loggers.continues:
            self.held.enter_context(self.loggers.started(self.trainer))  # if one cannot start, the run stays finished
        self.claim.begin()
        if self.claim.aside is not None:
            self.trainer.callbacks.append(DeleteReplaced(self.claim.aside))  # type: ignore[attr-defined]
        if not self.loggers.continues:
            self.held.enter_context(self.loggers.started(self.trainer))
        if self.config.test_start and self.checkpoint is None:
            self.trainer.test(self.model, self.datamodule, verbose=False)

    def _after_fit(self, started: float) -> None:
        """Test the final weights, write the run's summary, and print what the run leaves."""
        if self.config.test_end:
            self.trainer.test(self.model, self.datamodule, verbose=False)
        if self.trainer.is_global_zero and not self.config.trainer.fast_dev_run:
            seconds = time.perf_counter() - started
            write_summary(self.run_dir, self.trainer, seconds, self.model.start_flops, self.health.numbers())
            print(end_of_run(self.trainer, self.run_dir), flush=True)


def _is_first_process() -> bool:
    return getattr(rank_zero_only, "rank", 0) in (None, 0)


def _has_gpu(accelerator: Any) -> bool:
    return accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()


@contextmanager
def _command_line(argv: Sequence[str]) -> Iterator[None]:
    """Let ``sys.argv`` be this command line: DDP starts its other processes with ``sys.argv``."""
    before, sys.argv = sys.argv, [sys.argv[0], *argv]
    try:
        yield
    finally:
        sys.argv = before
