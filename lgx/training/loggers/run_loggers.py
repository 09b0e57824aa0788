"""Start the loggers of a run, and close them."""

import importlib
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import Logger, MLFlowLogger, WandbLogger
from lightning.pytorch.loggers.logger import DummyLogger

from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors, reason_of
from lgx.training.loggers.ids import LoggerIds
from lgx.training.loggers.recipes import LoggerRecipe, RunPlace, file_elsewhere, key_of_mlflow, key_of_wandb, store_of

_LIBRARIES: dict[type[Logger], str] = {WandbLogger: "wandb", MLFlowLogger: "mlflow"}
_REMEDIES: dict[type[Logger], str] = {
    WandbLogger: "`wandb login` stores your key, and WANDB_MODE=offline logs without an account",
    MLFlowLogger: "a tracking_uri is sqlite:///FILE or the address of a server, and a run_id is one of its runs",
}
_PATIENCE = 20
"""Seconds in which an MLflow server must answer. MLflow itself tries for minutes."""


class RunLoggers:
    """The loggers of a run.

    They start after the run's folder is claimed, because some write at once. Other processes than the first log
    nothing.

    Args:
        recipes: What they are built from.
        place: The run.
        continues: Whether they continue the logs of the run, or begin anew.
        overwrite: Whether files outside the run's folder may be replaced.
    """

    def __init__(
        self, recipes: Sequence[LoggerRecipe], place: RunPlace, continues: bool, overwrite: bool = False
    ) -> None:
        self.recipes, self.place, self.continues, self.overwrite = recipes, place, continues, overwrite

    def check(self) -> None:
        """Import the libraries that they need, ask servers for an answer, and read the ids of the run.

        Raises:
            UserError: If a library is not installed, a server does not answer, the file of ids is damaged, or a file
                would be replaced that may be another run's.
        """
        if self.continues:
            LoggerIds(self.place.folder)
        for recipe in self.recipes:
            file = None if self.continues or self.overwrite else file_elsewhere(recipe, self.place)
            if file is not None:
                raise UserError(f"{file} exists; give trainer.logger.version, or --overwrite to replace it")
            if recipe.kind is MLFlowLogger:
                _refuse_password(recipe.options.get("tracking_uri"))
                _check_server(store_of(recipe.options, self.place)[0])
            for kind, library in _LIBRARIES.items():
                if issubclass(recipe.kind, kind):
                    with extra("loggers", recipe.kind.__name__):
                        importlib.import_module(library)

    @contextmanager
    def started(self, trainer: Trainer) -> Iterator[None]:
        """Give the trainer its loggers in the block, unless it may log nothing, and close them at its end.

        Args:
            trainer: The trainer.

        Raises:
            UserError: If one cannot start.
        """
        if getattr(trainer, "fast_dev_run", False) or trainer.barebones:
            yield
            return
        if not trainer.is_global_zero:
            trainer.loggers = [DummyLogger() for _ in self.recipes]
            yield
            return
        self.check()
        folder, shared = self.place.folder, self._wandb_run()
        try:
            ids = LoggerIds(folder)
            trainer.loggers = [self._start(recipe, ids) for recipe in self.recipes]
            yield
        except Exception as error:
            library = type(error).__module__.split(".")[0]
            if library not in _LIBRARIES.values():
                raise
            raise UserError(f"{library}: cannot log ({reason_of(error)}); --ckpt_path last resumes the run") from error
        finally:
            run = self._wandb_run()
            if run is not None and run is not shared:  # a run that is in progress elsewhere is not ours to end
                run.finish(exit_code=int(sys.exc_info()[0] is not None))
            with suppress(OSError):  # nothing was written
                folder.rmdir()

    def _start(self, recipe: LoggerRecipe, ids: LoggerIds) -> Logger:
        kind, options = recipe.kind, recipe.options
        # Both libraries would pass on the place of this run to the later runs of this process.
        with (
            foreign_errors(kind.__name__, "cannot start", _REMEDIES.get(kind, "check its options")),
            _environment_kept("WANDB_MODE", "MLFLOW_TRACKING_URI"),
        ):
            logger = recipe.build(self.place, ids, self.continues)
            if isinstance(logger, WandbLogger):
                run_id = str(logger.experiment.id)
            elif isinstance(logger, MLFlowLogger):
                run_id = str(logger.run_id)
                logger.experiment.update_run(run_id, status="RUNNING")
        if kind is WandbLogger:
            ids.keep(key_of_wandb(options, self.place), run_id)
        elif kind is MLFlowLogger:
            ids.keep(key_of_mlflow(options, self.place), run_id)
        return logger

    def _wandb_run(self) -> Any | None:
        """The run of W&B that is in progress in this process. To ask for it loads W&B, which others do without."""
        used = any(issubclass(recipe.kind, WandbLogger) for recipe in self.recipes)
        return getattr(sys.modules.get("wandb"), "run", None) if used else None


def _refuse_password(uri: Any) -> None:
    """Refuse an address with a user or password, which the run's configuration and checkpoints would store."""
    if isinstance(uri, str) and "@" in uri.partition("://")[2].partition("/")[0]:
        raise UserError(
            "trainer.logger.tracking_uri: holds a user or password, which records would store; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead"
        )


def _check_server(uri: str) -> None:
    """Refuse an address at which no server answers."""
    if not uri.startswith(("http://", "https://")):
        return
    scheme, _, place = uri.partition("://")
    host, slash, path = place.partition("/")
    public = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}".rstrip("/")  # without a password
    try:
        urllib.request.urlopen(f"{public}/health", timeout=_PATIENCE).close()
    except urllib.error.HTTPError:
        return  # a server has answered
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):
            return  # a server has answered; MLflow has settings of its own for certificates
        raise UserError(
            f"MLFlowLogger: no server answers at {public} ({reason}); start `mlflow server`, or correct tracking_uri"
        ) from error


@contextmanager
def _environment_kept(*names: str) -> Iterator[None]:
    before = {name: os.environ[name] for name in names if name in os.environ}
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
