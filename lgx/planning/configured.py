"""A configuration of ``lgx fit``, read by the parser of ``lgx fit``, of which only method and data module are built."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import torch
from jsonargparse import ArgumentError, Namespace
from lightning.pytorch.cli import LightningArgumentParser

from data_modules.base import TaskDataModule
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.core.warnings import quiet
from lgx.errors import UserError
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.methods.hypernetworks.tal import TAL
from lgx.planning.options import Options
from lgx.training.cli import BASES, LgxCLI, _within
from lgx.training.parsing import explain, restrict_imports

TASK_WIDTH = 768
"""Width of task embeddings that are not made yet: that of ViT-B and of GPT-2, which made the papers'."""


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
    notes = _stand_in(method, data, cli.missing)
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
        """Neither claim the run's folder nor look for its checkpoints; leave out files that do not exist yet."""
        self.missing = _take_out_missing(self.config.fit.model.get("init_args"))

    def instantiate_classes(self) -> None:
        """Build everything but the trainer, which would look for the GPUs that are planned for."""
        self.config_init = self.parser.instantiate_classes(self.config)
        self.datamodule, self.model = self.config_init.fit.data, self.config_init.fit.model

    def after_instantiate_classes(self) -> None:
        """Nothing is loaded."""

    def _run_subcommand(self, subcommand: str) -> None:
        """Nothing is run."""


def _take_out_missing(arguments: Namespace | None) -> dict[str, Any]:
    """Take out of TAL's arguments, which it reads when it is built, the files that do not exist; what they were."""
    if arguments is None or not {"start", "task_embeddings", "freeze_encoder"} <= vars(arguments).keys():
        return {}
    names = [name for name in ("start", "task_embeddings") if arguments[name] and not Path(arguments[name]).exists()]
    missing = {name: arguments[name] for name in names}
    if "start" in missing:  # TAL refuses to freeze an encoder that nobody has trained
        missing["freeze_encoder"] = arguments["freeze_encoder"]
        arguments["freeze_encoder"] = False
    for name in names:
        arguments[name] = None
    return missing


def _stand_in(method: Method, data: TaskDataModule, missing: dict[str, Any]) -> tuple[str, ...]:
    """Give a method what the missing files would have given it, as far as the plan depends on it."""
    notes = []
    if not isinstance(method, TAL):
        return ()
    if "start" in missing:
        method.freeze_encoder = missing["freeze_encoder"]
        notes.append(
            f"model.start: {missing['start']} does not exist yet; its hypernetwork is taken to be of the size that "
            f"model.width, layers, heads, max_shape, rank, max_size and layout say."
        )
    if "task_embeddings" in missing:
        method.config = replace(method.config, task_width=TASK_WIDTH)
        method._embeddings = TaskEmbeddings({name: torch.zeros(TASK_WIDTH) for name in data.all_tasks})
        notes.append(
            f"model.task_embeddings: {missing['task_embeddings']} does not exist yet; embeddings are taken to have "
            f"{TASK_WIDTH} numbers."
        )
    return tuple(notes)
