"""A configuration of ``lgx fit``, read by the parser of ``lgx fit``, of which only method and data module are built."""

from dataclasses import dataclass, fields
from typing import cast

from jsonargparse import ArgumentError, Namespace
from lightning.pytorch.cli import LightningArgumentParser

from data_modules.base import TaskDataModule
from lgx.core.warnings import quiet
from lgx.errors import UserError
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.planning.options import Options
from lgx.training.cli import BASES, LgxCLI, _within
from lgx.training.parsing import explain, restrict_imports


@dataclass(frozen=True)
class Configured:
    """What a configuration describes.

    Attributes:
        method: The method, without network and trainer.
        data: The data module, which has read nothing.
        trainer: Arguments of the trainer.
        checkpoint: Arguments of the best checkpoint.
        options: Those of the plan.
        notes: What was assumed of files that are missing.
    """

    method: Method
    data: TaskDataModule
    trainer: Namespace
    checkpoint: Namespace
    options: Options
    notes: tuple[str, ...]


def configure(argv: list[str]) -> Configured:
    """Read a configuration.

    Args:
        argv: Options of ``lgx fit`` and of :class:`~lgx.planning.options.Options`.

    Raises:
        UserError: For whatever is wrong with them, in one sentence.
    """
    quiet()
    registry.load_all()
    restrict_imports()
    try:
        cli = _PlanCLI(["fit", *argv])
    except ArgumentError as error:
        raise UserError(explain(str(error), BASES)) from error
    except ValueError as error:  # jsonargparse wraps what it meets, as in lgx.training.cli
        if (mistake := _within(error)) is None:
            raise
        raise mistake from error
    config, method, data = cli.config.fit, cast(Method, cli.model), cast(TaskDataModule, cli.datamodule)
    notes = method.assume_missing_files(data.all_tasks)
    options = Options(**{field.name: config[field.name] for field in fields(Options)})
    return Configured(method, data, config.trainer, config.checkpoint, options, notes)


class _PlanCLI(LgxCLI):
    """The command line of ``lgx fit``, with the plan's options, that ends when method and data module are built."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """See :class:`~lgx.training.cli.LgxCLI`; with the plan's options."""
        super().add_arguments_to_parser(parser)
        parser.add_class_arguments(Options)

    def _set_seed(self) -> None:
        """A plan draws nothing, and has nothing to say of seeds."""

    def before_instantiate_classes(self) -> None:
        """A plan neither claims the run's folder nor looks for its checkpoints."""

    def instantiate_classes(self) -> None:
        """Build everything but the trainer, which would look for the GPUs that are planned for."""
        self.config_init = self.parser.instantiate_classes(self.config)
        self.datamodule, self.model = self.config_init.fit.data, self.config_init.fit.model

    def after_instantiate_classes(self) -> None:
        """Nothing is loaded."""

    def _run_subcommand(self, subcommand: str) -> None:
        """Nothing is run."""
