"""``lgx fit|validate|test|predict``: Lightning's CLI, which claims the run's folder between parsing and building."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from data_modules import TaskDataModule
from lgx.artifacts.checkpoints import LAST
from lgx.core.provenance import commit
from lgx.core.readable import lower_is_better
from lgx.core.rows import keep_rows
from lgx.core.schema import all_values
from lgx.errors import Preempted, UserError
from lgx.host.extras import EXTRAS
from lgx.host.failures import blame, reason_of, refused_by_lightning, worker_was_killed
from lgx.host.launcher import check_job
from lgx.host.locks import run_lock
from lgx.host.signals import STOP
from lgx.methods.base import Method
from lgx.training.callbacks.costs import CountCosts, peak_bytes
from lgx.training.callbacks.health import TrainingHealth
from lgx.training.callbacks.results import SaveConfig
from lgx.training.callbacks.run_weights import RunWeights
from lgx.training.configuration import (
    REFUSED,
    configuration_text,
    instantiate,
    make_parser,
    parse_configuration,
)
from lgx.training.lightning_internals import (
    begin_epochs_after_whole_ones,
    callbacks_of,
    find_unused_parameters,
    forget_averages,
)
from lgx.training.run_folder import FolderClaim, find_checkpoint, place_of_run, write_summary
from lgx.training.same_run import RunIdentity, check_same, package_versions
from lgx.training.sources import resolve_sources
from lgx.training.trainer_parts import every_callback, every_plugin, place_loggers

WriteReport = Callable[[Path, Method], Path | None]
"""Writes a page to a run's folder, given the trained method; None for no page."""


def run(argv: list[str], write_report: WriteReport | None = None) -> None:
    """Run a training command.

    Args:
        argv: ``fit``, ``validate``, ``test`` or ``predict`` and its options.
        write_report: Writes the page of a finished run; None for no page.
    """
    check_job()
    try:
        with ExitStack() as held, STOP.requeue_noted(), _command_line(argv):
            LgxCLI(argv[0], argv[1:], held, write_report).run()
    except MisconfigurationException as error:  # of Lightning's checks of its arguments
        raise UserError(" ".join(str(error).split())) from error


_REFUSALS = (MisconfigurationException, ValueError, AttributeError, ImportError, NotImplementedError)
"""Errors of a wrong option, not of a failed computation."""


class LgxCLI(LightningCLI):
    """Lightning's CLI for one command on a run, in ``<runs_dir>/<experiment>/<name>/seed<k>``, also after a requeue.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        argv: The command line without the command.
        held: Releases the lock of the run's folder when the command ends.
        write_report: Writes the page of a finished run; None for no page.
    """

    def __init__(
        self, command: str, argv: Sequence[str], held: ExitStack, write_report: WriteReport | None = None
    ) -> None:
        self.command = command
        self.held = held
        self.write_report = write_report
        super().__init__(
            Method,
            TaskDataModule,
            args=[*argv],
            run=False,
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,  # a checkpoint holds the run's whole configuration
        )

    def setup_parser(
        self, add_subcommands: bool, main_kwargs: dict[str, Any], subparser_kwargs: dict[str, Any]
    ) -> None:
        """Make the parser of the command."""
        self.run_parser = self.parser = make_parser(self.command)

    def parse_arguments(self, parser: Any, args: Any) -> None:
        """Parse the command line."""
        self.config = parse_configuration(self.run_parser, args)

    def before_instantiate_classes(self) -> None:
        """Lock the run's folder, find the checkpoint and compare it, before objects are built."""
        config = self.config
        self.run_dir = place_of_run(config)
        on_gpu = _has_gpu(config.trainer.accelerator)
        config.trainer.precision = config.trainer.precision or ("bf16-mixed" if on_gpu else "32-true")
        self.sources = resolve_sources(config, download=self.command == "fit" or config.untrained)
        versions = {"commit": commit(), **package_versions()}
        files = self.sources.digests() if self.command == "fit" else {}
        self.identity = RunIdentity(configuration_text(self.run_parser, config), versions, files)
        writes = self.command == "fit" and not config.trainer.fast_dev_run and _is_first_process()
        self.claim = FolderClaim(self.run_dir, config.ckpt_path == "last", config.overwrite, writes)
        if writes:
            self.held.enter_context(run_lock(self.run_dir))
        self.checkpoint = find_checkpoint(self.run_dir, self.command, config.ckpt_path, config.untrained)
        if self.command == "fit":
            data = all_values(config.data.as_dict(), "data")
            folders = [(key, Path(text)) for key, text in data if isinstance(text, str) and os.path.exists(text)]
            inputs = [*self.sources.weights().items(), *folders]
            self.checkpoint = self.claim.check(self.checkpoint, self.identity, inputs)

    def instantiate_classes(self) -> None:
        """Build the data module, the method and the trainer."""
        config = self.sources.config
        if self.command == "predict":
            config.trainer.logger = False
        place_loggers(config, self.run_dir)
        built = instantiate(self.run_parser, config)
        self.datamodule = built.data
        self.model = built.model
        if self.checkpoint is not None:
            self.model.expect_checkpoint(self.checkpoint.about)
        resumed = self.checkpoint if self.checkpoint is not None and self.checkpoint.is_in(self.run_dir) else None
        self.health = TrainingHealth()
        self._monitor(built.checkpoint)
        options: Any = built.trainer
        with blame(REFUSED):
            plugins, self.checkpoint_io = every_plugin(options.plugins)
        self.saved = SaveConfig(self.identity, resumed is not None)
        first = [self.claim, self.saved] if self.command == "fit" else []
        callbacks = every_callback(self.command, self.config, built, self.run_dir, self.health, self.checkpoint_io)
        if not self.datamodule.has_validation:
            options.limit_val_batches = 0
        changed = {"default_root_dir": str(self.run_dir), "plugins": plugins, "callbacks": [*first, *callbacks]}
        with blame(REFUSED):
            self.trainer = Trainer(**{**options, **changed})
        begin_epochs_after_whole_ones(self.trainer)
        if self.config.split_batch:
            self.datamodule.split_batch(self.trainer.world_size)
        if self.model.varying_graph:
            find_unused_parameters(self.trainer)

    def _monitor(self, best: Any) -> None:
        """Let the best checkpoint be that of the task's main metric, in the run's folder.

        This is set on the object, because the saved configuration may run again elsewhere.
        """
        if not best.monitor:
            best.monitor = f"val/{self.model.validated_as(self.datamodule.task).metric}"
            if lower_is_better(best.monitor):
                best.mode = "min"
                best.kth_value = torch.tensor(torch.inf)
        if best.dirpath is None:
            # Absolute: a run that is resumed from another folder must recognize its best checkpoint.
            best.dirpath = str(self.run_dir.resolve() / "checkpoints")

    def run(self) -> None:
        """Run the command."""
        arguments: dict[str, Any] = {"ckpt_path": self.checkpoint.path if self.checkpoint else None}
        if self.command in ("validate", "test"):
            arguments["verbose"] = False  # Report prints the scores
        if self.command == "fit":
            if self.claim.is_finished():
                print(f"finished   {self.run_dir}: nothing to do; --overwrite trains again")
                return
            self._before_fit()
        with self._blamed():
            getattr(self.trainer, self.command)(self.model, datamodule=self.datamodule, **arguments)
            if self.command == "fit":
                self._after_fit()

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Attribute errors during restoring to the checkpoint, and Lightning's refusals to the trainer."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit) as end:
            # Lightning ends an interrupted run with exit(1).
            if KeyboardInterrupt not in (type(end), type(end.__context__)):
                raise
            if self.command != "fit":
                raise KeyboardInterrupt from end
            raise Preempted(
                f"interrupted; finished files of the run are complete, {self._how_to_resume()}", 130
            ) from end
        except Exception as error:
            library = type(error).__module__.partition(".")[0]
            if library in EXTRAS["loggers"]:
                raise UserError(f"{library}: cannot log ({reason_of(error)}); {self._how_to_resume()}") from error
            # In a test of the start, only Lightning receives the signal.
            stop = STOP.received or (signal.SIGTERM if self.trainer.received_sigterm else None)
            if stop is not None and worker_was_killed(error):  # before they had left the process group
                words = f"{signal.Signals(stop).name}: the run and its loader processes ended, {self._how_to_resume()}"
                raise Preempted(words, 128 + stop) from error
            if not self.checkpoint_io.is_restoring:
                owner = refused_by_lightning(error)
                if owner is not None and (isinstance(error, _REFUSALS) or owner == "EarlyStopping"):
                    raise UserError(f"trainer: {owner} refuses this run ({reason_of(error)})") from error
                raise
            wrong = "--ckpt_path: the checkpoint is from another run, or is damaged"
            with blame(wrong, MisconfigurationException, OSError):
                raise

    def _how_to_resume(self) -> str:
        is_kept = (self.run_dir / "checkpoints" / LAST).is_file()
        return "resume it with --ckpt_path last" if is_kept else "there is no checkpoint yet: start it again"

    def _before_fit(self) -> None:
        """Read the data, so that errors occur before anything is replaced; test the start of a new run."""
        if _is_first_process():
            self.datamodule.prepare_data()
            self.datamodule.setup("fit")
            if self.config.test_start or self.config.test_end:
                self.datamodule.setup("test")
        if self.claim.writes:
            batch = self.datamodule.batch_size * self.trainer.world_size
            data = {**self.datamodule.fingerprint(), "data.batch_size x processes": str(batch)}
            # Only this process writes checkpoints, so other processes need no complete identity.
            self.saved.identity = replace(self.identity, data=data)
            if self.claim.resumed is not None:
                check_same(self.claim.resumed, self.saved.identity, str(self.run_dir))
        if self.config.test_start and self.checkpoint is None:
            with self._blamed():
                self.trainer.test(self.model, self.datamodule, verbose=False)

    def _validate_again(self) -> None:
        """Replace the rows of the last validation, which was before the method has finished its weights."""
        last = self.model.epochs_trained
        if self.trainer.is_global_zero:
            keep_rows(self.run_dir / "results.csv", lambda row: (row.split, row.epochs) != ("val", last))
        forget_averages(self.trainer)
        self.trainer.validate(self.model, self.datamodule, verbose=False)

    def _after_fit(self) -> None:
        """Test the run's weights, write its summary, and print its outputs."""
        if self.model.finishes and self.datamodule.has_validation:
            self._validate_again()
        if self.config.test_end:
            self.trainer.test(self.model, self.datamodule, verbose=False)
        if self.trainer.is_global_zero and not self.config.trainer.fast_dev_run:
            (weights,) = callbacks_of(self.trainer, RunWeights)
            tested = self.model.epochs_trained  # an earlier end of this run may have tested later weights
            keep_rows(self.run_dir / "results.csv", lambda row: row.split != "test" or row.epochs <= tested)
            page = self.write_report(self.run_dir, self.model) if self.write_report else None
            (costs,) = callbacks_of(self.trainer, CountCosts)
            counted = {
                "seconds": round(self.health.seconds, 1),
                **costs.numbers(),
                "start_flops": self.model.start_flops,
                "peak_bytes": peak_bytes(self.trainer.strategy.root_device),
            }
            files = self.identity.files
            write_summary(self.run_dir, self.trainer, counted, files, self.health.numbers(), weights.kind)
            print(f"weights    {weights.words}: {weights.path}{weights.other}")
            for sentence in self.model.conclusions():
                print(f"result     {sentence}")
            if page:
                print(f"report     {page}")
            print(f"next       {self.model.next_command(self.run_dir)}", flush=True)


def _is_first_process() -> bool:
    return getattr(rank_zero_only, "rank", 0) in (None, 0)


def _has_gpu(accelerator: Any) -> bool:
    return accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()


@contextmanager
def _command_line(argv: Sequence[str]) -> Iterator[None]:
    """Let ``sys.argv`` be this command line: DDP starts its other processes with ``sys.argv``."""
    before = sys.argv
    sys.argv = [sys.argv[0], *argv]
    try:
        yield
    finally:
        sys.argv = before
