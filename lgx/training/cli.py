"""``lgx fit|validate|test|predict``: Lightning's CLI with lgx's defaults, links and promises."""

import errno
import shutil
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentError
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, RichProgressBar, TQDMProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins.environments import ClusterEnvironment, SLURMEnvironment, TorchElasticEnvironment
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from data_modules import TaskDataModule  # importing the package makes every data module known by its short name
from lgx.core.allocator import keep_freed_memory
from lgx.core.batch import Kind
from lgx.core.warnings import quiet
from lgx.errors import UserError
from lgx.initialization import Initializer
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.training.callbacks import (
    Announce,
    AtomicCheckpointIO,
    DrawFigures,
    LastCheckpoint,
    Preemption,
    SaveLearngene,
    SavePredictions,
    SaveResults,
)
from lgx.training.callbacks.config import SaveConfig
from lgx.training.callbacks.preemption import signals_restored
from lgx.training.migrations import migrate_argv
from lgx.training.parsing import check_configs, explain, restrict_imports
from lgx.training.restoring import CheckRestored, blamed, check_run
from lgx.training.summary import SUMMARY, write_summary

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What the system says when there is no room left: on the disk, in a quota, in a file."""

BASES: dict[str, type] = {"model": Method, "data": TaskDataModule, "model.initializer": Initializer}


def run(argv: list[str]) -> None:
    """Run a training command.

    Args:
        argv: ``fit``, ``validate``, ``test`` or ``predict`` and its options.

    Raises:
        UserError: For a user's mistake.
    """
    quiet()
    registry.load_all()
    restrict_imports()
    check_configs(argv)
    argv = migrate_argv(argv)
    try:
        with signals_restored():
            LgxCLI(argv)
    except ArgumentError as error:
        raise UserError(explain(str(error), BASES)) from error
    except MisconfigurationException as error:
        raise UserError(explain(str(error))) from error
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # Lightning ends an interrupted run with exit(1)
            raise KeyboardInterrupt from end
        raise
    except UserError:
        raise
    except Exception as error:
        # jsonargparse tries every reading of a value and wraps what they raise; the user's mistake lies within.
        if (mistake := _within(error)) is not None:
            raise mistake from error
        if (place := blamed(error)) is None:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise UserError(f"{place} ({reason})") from error


class LgxCLI(LightningCLI):
    """LightningCLI in subclass mode with forced logger and checkpoint groups.

    A run lives in ``<runs_dir>/<experiment>/<name>/seed<k>``, which does not change when a job is requeued.

    Args:
        argv: Command line without the program name.
    """

    def __init__(self, argv: list[str]) -> None:
        self._command = argv[0]
        defaults = {"default_config_files": [str(resources.files("lgx.training") / "defaults.yaml")]}
        # Abbreviated options would let a misspelt one pass.
        strict = {"exit_on_error": False, "allow_abbrev": False}
        # DDP starts its other processes with this process's command line, whoever called us with which arguments.
        old, sys.argv = sys.argv, [sys.argv[0], *argv]
        try:
            super().__init__(
                Method,
                TaskDataModule,
                save_config_callback=SaveConfig,
                save_config_kwargs={"overwrite": True},
                subclass_mode_model=True,
                subclass_mode_data=True,
                auto_configure_optimizers=False,
                seed_everything_default=0,
                parser_kwargs={
                    **strict,
                    **{command: {**defaults, **strict} for command in self.subcommands()},
                },
            )
        finally:
            sys.argv = old

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]  # Lightning's does not know the command line
        """The one that was called: the parsers of the others would take as long again each."""
        return {self._command: super().subcommands()[self._command]}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the run's place, the logger and checkpoint groups, and the links."""
        parser.add_argument("--runs_dir", type=str, default="runs", help="Folder below which all runs lie.")
        parser.add_argument("--experiment", type=str, default="default", help="Runs that are compared lie together.")
        parser.add_argument("--name", type=str | None, default=None, help="Name of the run; the method's by default.")
        parser.add_argument("--overwrite", type=bool, default=False, help="Replace a run that lies there already.")
        parser.add_argument("--test_start", type=bool, default=False, help="Before fit, test the start untrained.")
        parser.add_argument("--test_end", type=bool, default=False, help="After fit, test the final weights.")
        parser.add_argument(
            "--untrained", type=bool, default=False, help="Evaluate the initialized network, without a checkpoint."
        )
        parser.add_argument(
            "--save_every",
            type=int | None,
            default=None,
            help="Also save last.ckpt every so many steps, not only epochs.",
        )
        parser.add_class_arguments(TensorBoardLogger, "logger")
        parser.add_lightning_class_args(ModelCheckpoint, "checkpoint")
        parser.link_arguments(("runs_dir", "experiment"), "logger.save_dir", compute_fn=_join)
        parser.link_arguments(("name", "model"), "logger.name", compute_fn=_run_name)
        parser.link_arguments("seed_everything", "logger.version", compute_fn=_version)
        parser.link_arguments("logger", "trainer.logger", apply_on="instantiate")
        parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=_seed)
        parser.link_arguments("data.num_classes", "model.init_args.num_classes", apply_on="instantiate")
        parser.link_arguments("data", "model.init_args.kind", compute_fn=_kind, apply_on="instantiate")

    def _parse_ckpt_path(self) -> None:
        """Never merge a checkpoint's hyper-parameters: what was typed counts (Lightning would let the file win)."""

    def after_instantiate_classes(self) -> None:
        """Hand on the checkpoint that was found, and tell the method whether one follows."""
        self.config_init[self.subcommand].ckpt_path = self.checkpoint
        self.model.weights_follow = self.checkpoint is not None

    def _run_subcommand(self, subcommand: str) -> None:
        """Name the run where the disk is full and the error does not say what could not be written."""
        try:
            super()._run_subcommand(subcommand)
        except OSError as error:
            if error.filename is not None or error.errno not in FULL:
                raise
            raise UserError(
                f"cannot write {self.run_dir}: {error.strerror}; free some space, then resume with --ckpt_path last"
            ) from error

    # -- building the trainer -----------------------------------------------------------------------------------

    def before_instantiate_classes(self) -> None:
        """Choose the run's folder, mixed precision on a GPU, and check the place before anything is built."""
        config = self.config[self.subcommand]
        for group in ("model", "data"):
            if config.get(group) is None:
                raise UserError(f"--{group} is missing: give it here or in a --config file; see lgx fit --help")
        logger = config.logger
        self.run_dir = Path(logger.save_dir) / logger.name / logger.version
        if not _has_gpu(config.trainer.accelerator):
            keep_freed_memory()
        elif config.trainer.precision is None:
            config.trainer.precision = "bf16-mixed"
        self.checkpoint = self._resolve_checkpoint(config.ckpt_path)
        if self.subcommand == "fit" and not config.trainer.fast_dev_run:
            self._claim(self.checkpoint, config.overwrite, goes_on=config.ckpt_path == "last")

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Add what every run has: progress bar, learning-rate curve, results, learngene, atomic checkpoints."""
        # What follows from the run's place goes into the objects, not into the configuration: that is saved, and may be
        # run again elsewhere.
        trainer = self.config_init[self.subcommand].trainer
        trainer.default_root_dir = str(self.run_dir)
        best = self.config_init[self.subcommand].checkpoint
        best.monitor = best.monitor or f"val/{self.datamodule.task.metric}"
        if best.dirpath is None:
            # Absolute: a run that is resumed from another folder must recognize its best checkpoint.
            best.dirpath = str(self.run_dir.resolve() / "checkpoints")
        bar = RichProgressBar(leave=True) if sys.stdout.isatty() else TQDMProgressBar(refresh_rate=50)
        callbacks: list[Callback] = [Announce(), SaveResults(), SaveLearngene(), SavePredictions()]
        callbacks += [CheckRestored(), DrawFigures()]
        if trainer.enable_progress_bar is not False:
            callbacks.append(bar)
        if trainer.logger and not trainer.fast_dev_run:
            callbacks.append(LearningRateMonitor(logging_interval="step"))
        trainer.callbacks = [*(trainer.callbacks or []), *callbacks]
        plugins = trainer.plugins or []
        plugins = [*(plugins if isinstance(plugins, list) else [plugins]), AtomicCheckpointIO()]
        if _on_slurm() and not any(isinstance(plugin, ClusterEnvironment) for plugin in plugins):
            plugins.append(SLURMEnvironment(auto_requeue=False))  # Preemption requeues, once the state is saved
        trainer.plugins = plugins
        if not trainer.fast_dev_run:
            # Behind the best checkpoint, whose state it saves with the rest.
            last = LastCheckpoint(self.run_dir / "checkpoints", self.config[self.subcommand].save_every)
            self.trainer_defaults = {**self.trainer_defaults, "callbacks": [last, Preemption(last)]}
        return super().instantiate_trainer(**kwargs)

    def before_fit(self) -> None:
        """Test the start, unless the run is resumed and has done so."""
        self._started = time.perf_counter()
        config = self.config[self.subcommand]
        if config.test_start or config.test_end:
            self.datamodule.prepare_data()
            self.datamodule.setup("test")  # a missing test split shall be known before hours of training
        if config.test_start and self.checkpoint is None:
            self.trainer.test(self.model, self.datamodule, verbose=False)

    def after_fit(self) -> None:
        """Test the final weights, write the run's summary, and say how to go on."""
        config = self.config[self.subcommand]
        if config.test_end:
            self.trainer.test(self.model, self.datamodule, verbose=False)
        if self.trainer.is_global_zero and not config.trainer.fast_dev_run:
            write_summary(self.run_dir, self.trainer, seconds=time.perf_counter() - self._started)
            kind = "best" if (self.run_dir / "checkpoints" / "best.ckpt").exists() else "last"
            print(f"next       lgx test --config {self.run_dir / 'config.yaml'} --ckpt_path {kind}")

    # -- the run's place ----------------------------------------------------------------------------------------

    def _resolve_checkpoint(self, path: str | None) -> str | None:
        """``best`` and ``last`` are this run's; ``last`` of a run that has none yet starts it (requeued jobs)."""
        if path is None:
            if self.subcommand != "fit" and not self.config[self.subcommand].untrained:
                raise UserError(
                    f"needs --ckpt_path: best, last or a file; a start without training is evaluated by "
                    f"`lgx {self.subcommand} … --untrained true`"
                )
            return None
        if "://" in path:
            raise UserError(f"--ckpt_path {path}: only local files are read; download it first")
        if path in ("best", "last"):
            file = self.run_dir / "checkpoints" / f"{path}.ckpt"
            if not file.is_file():
                if self.subcommand == "fit" and path == "last":
                    return None
                raise UserError(f"--ckpt_path {path}: {file} does not exist; run `lgx fit` with this configuration")
            path = str(file)
        check_run(path, f"--ckpt_path {path}")
        return path

    @rank_zero_only
    def _claim(self, checkpoint: str | None, overwrite: bool, goes_on: bool) -> None:
        """Refuse to mix two runs in one folder; a run that ended before it saved anything to go on from starts anew."""
        resumes = checkpoint is not None and self.run_dir.resolve() in Path(checkpoint).resolve().parents
        if resumes or not self.run_dir.exists():
            return
        kept = any(self.run_dir.rglob("*.ckpt")) or (self.run_dir / "results.csv").exists()
        unfinished = not (self.run_dir / SUMMARY).exists()
        if kept and not overwrite and not (goes_on and unfinished):
            raise UserError(
                f"{self.run_dir} already holds a run: --ckpt_path last resumes it, --overwrite true replaces it, "
                f"--name or --seed_everything starts another"
            )
        shutil.rmtree(self.run_dir)


def _on_slurm() -> bool:
    """Whether SLURM starts the processes; torchrun does within a job of SLURM, if it is used there."""
    return SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()


def _within(error: BaseException) -> UserError | None:
    """The UserError that led to an error, if one did."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, UserError):
            return current
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return None


def _join(runs_dir: str, experiment: str) -> str:
    return str(Path(runs_dir) / experiment)


def _run_name(name: str | None, model: Any) -> str:
    # jsonargparse also links while it reads the defaults, when no model is chosen yet.
    return name or (str(model.class_path).rsplit(".", 1)[-1].lower() if model else "run")


def _seed(seed: int | bool) -> int:
    """``true`` and ``false`` are Lightning's words for seed 0 and for none."""
    return 0 if isinstance(seed, bool) else seed


def _kind(data: Any) -> Kind:
    kind: Kind = data.task.kind
    return kind


def _version(seed: int | bool) -> str:
    return f"seed{_seed(seed)}"


def _has_gpu(accelerator: Any) -> bool:
    import torch

    return accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
