"""A configuration of ``lgx fit``, read by the parser of ``lgx fit``, of which only method and data module are built."""

from dataclasses import dataclass, fields

from jsonargparse import Namespace

from data_modules.base import TaskDataModule
from lgx.methods.base import Method
from lgx.planning.options import Options
from lgx.training.configuration import instantiate, make_parser, parse_configuration


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
    parser = make_parser("fit", Options)
    config = parse_configuration(parser, argv)
    built = instantiate(parser, config)
    notes = built.model.assume_missing_files(built.data.all_tasks)
    options = Options(**{field.name: config[field.name] for field in fields(Options)})
    return Configured(built.model, built.data, config.trainer, config.checkpoint, options, notes)
