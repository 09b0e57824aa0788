"""Parse the configuration of a training command, and build the objects that it describes."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from importlib import resources

import lightning.pytorch
from docstring_parser import parse as parse_docstring
from jsonargparse import ActionConfigFile, ArgumentError, Namespace
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from data_modules import TaskDataModule
from lgx.components.probes import NEIGHBORS, ProbeName
from lgx.core.task import Kind
from lgx.errors import UserError
from lgx.host.failures import blame
from lgx.host.startup import silence_known_warnings
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.training.allowed_imports import restrict_imports
from lgx.training.flags import normalize
from lgx.training.lightning_internals import option_strings
from lgx.training.parser_messages import explain
from lgx.training.parsing import check_values, use_checked_yaml
from lgx.training.run_parser import BASES, RunParser
from lgx.training.value_checks import check_parsed

_FLAGS = {
    "overwrite": "Replace the run that the folder already holds.",
    "test_start": "Test the untrained start before training.",
    "test_end": "Test the final weights after training.",
    "untrained": "Evaluate the untrained start, without a checkpoint.",
    "allow_non_finite": "Train on after a loss that is not finite; write and read learngenes with such numbers.",
}
"""Boolean options -> help."""

_GIVEN = {
    "self", "model", "datamodule", "dataloaders", "train_dataloaders", "val_dataloaders", "return_predictions",
    "verbose",
}  # fmt: skip
"""Arguments of the trainer's methods that are no options."""


def make_parser(command: str, extra: type | None = None) -> RunParser:
    """The parser of a training command; class paths may name known classes only.

    A process makes each parser once, which takes a tenth of a short run, and uses it for one command line after the
    other.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        extra: Dataclass whose fields are further options.
    """
    silence_known_warnings()
    registry.load_all()
    use_checked_yaml()
    restrict_imports()
    return _new_parser(command, extra)


@cache
def _new_parser(command: str, extra: type | None) -> RunParser:
    parser = RunParser(
        prog=f"lgx {command}",
        description="Options may also stand in configuration files, which --config reads; the last value counts.",
        default_config_files=[str(resources.files("lgx.training") / "defaults.yaml")],
        dump_header=[f"lightning.pytorch=={lightning.pytorch.__version__}"],
        exit_on_error=False,
        allow_abbrev=False,  # an abbreviation would let a misspelt option pass
    )
    parser.add_argument("-c", "--config", action=ActionConfigFile, help="Configuration file in YAML.")
    parser.add_argument("--seed_everything", type=bool | int, default=0, help="Seed of the run; false sets none.")
    parser.add_lightning_class_args(Trainer, "trainer")
    parser.add_lightning_class_args(Method, "model", subclass_mode=True)
    parser.add_lightning_class_args(TaskDataModule, "data", subclass_mode=True)
    _add_run_options(parser)
    if command == "test":
        _add_probe_options(parser)
    if extra is not None:
        _add_fields(parser, extra)
    _link(parser)
    parser.add_method_arguments(Trainer, command, skip=_GIVEN)
    if extra is None:
        parser.keep_names(command)
    return parser


def parse_configuration(parser: RunParser, argv: Sequence[str]) -> Namespace:
    """Parse a command line and the configuration files that it names.

    Args:
        parser: The parser of :func:`make_parser`.
        argv: The command line without the command.

    Raises:
        UserError: For any mistake in them, in one sentence.
    """
    check_values(argv)
    words = normalize(argv, parser.flags)
    with explained(parser):
        config: Namespace = parser.parse_args(words)
    check_parsed(config)
    return config


def instantiate(parser: RunParser, config: Namespace) -> Namespace:
    """Build what a configuration describes, without the trainer.

    Args:
        parser: The parser that has parsed the configuration.
        config: The configuration.

    Returns:
        The configuration with objects in place of their classes and arguments: ``model``, ``data``, .... Loggers are
        built when they are called, because some write or connect then.

    Raises:
        UserError: If a value is refused.
    """
    parser.refused.clear()
    with refused_values():
        try:
            built: Namespace = parser.instantiate_classes(config)
            return built
        except Exception as error:
            # jsonargparse tries every type that an option may have, and raises an error of its own if all fail.
            if isinstance(error.__cause__, UserError):  # of a link
                raise error.__cause__ from error
            if not parser.refused:
                raise
            kind, cause = parser.refused[-1]
            with blame(f"the configuration holds a value that {kind.__name__} refuses"):
                raise cause from error


def configuration_text(parser: RunParser, config: Namespace) -> str:
    """A configuration as YAML, without ``ckpt_path`` and ``overwrite``, which concern one start of the run only.

    Args:
        parser: The parser that has parsed it.
        config: The configuration.
    """
    config = config.clone()
    config.ckpt_path, config.overwrite = None, False
    return str(parser.dump(config, skip_unset=False, skip_validation=True))


def method_arguments(command: str) -> list[str]:
    """Arguments of the trainer's method that a configuration gives."""
    return [name for name in inspect.signature(getattr(Trainer, command)).parameters if name not in _GIVEN]


@contextmanager
def explained(parser: RunParser | None = None) -> Iterator[None]:
    """Turn the messages of jsonargparse and of Lightning's checks of its arguments into one sentence.

    Args:
        parser: Whose options are suggested in place of unknown ones.

    Raises:
        UserError: In place of their errors.
    """
    try:
        yield
    except ArgumentError as error:
        options = option_strings(parser) if parser else []
        raise UserError(explain(str(error), BASES, options, "--help-all")) from error
    except MisconfigurationException as error:
        raise UserError(explain(str(error))) from error


@contextmanager
def refused_values() -> Iterator[None]:
    """Attribute every error to the configuration: its values are given to classes of other packages.

    Raises:
        UserError: In place of any other error.
    """
    with blame("the configuration holds a value that is refused"), explained():
        yield


def _add_run_options(parser: RunParser) -> None:
    """Add lgx's own options: the run's folder, flags and best checkpoint."""
    parser.add_argument("--runs_dir", type=str, default="runs", help="Folder of all experiments.")
    parser.add_argument("--experiment", type=str, default="default", help="Folder of runs that are compared.")
    parser.add_argument("--name", type=str | None, default=None, help="Name of the run; the method's by default.")
    for name, text in _FLAGS.items():
        parser.add_flag(name, help=text)
    parser.add_argument("--save_every", type=int | None, default=None, help="Save last.ckpt every so many steps, too.")
    parser.add_lightning_class_args(ModelCheckpoint, "checkpoint")


def _add_probe_options(parser: RunParser) -> None:
    """Add what `lgx test` measures in place of the head's accuracy."""
    text = "Accuracy of a classifier on the network's features, in place of its head: k nearest neighbors, or linear."
    parser.add_argument("--probe", type=ProbeName | None, default=None, help=text)
    parser.add_argument("--probe_k", type=int, default=NEIGHBORS, help="Neighbors that vote with --probe knn.")


def _add_fields(parser: RunParser, extra: type) -> None:
    """Add the fields of a dataclass as options, boolean ones as flags."""
    flags = [field for field in fields(extra) if field.type in (bool, "bool")]
    parser.add_class_arguments(extra, skip={field.name for field in flags})
    helps = {entry.arg_name: entry.description for entry in parse_docstring(inspect.getdoc(extra) or "").params}
    for field in flags:
        parser.add_flag(field.name, field.default is True, helps.get(field.name))


def _link(parser: RunParser) -> None:
    """Tell the data of the run's seed, and the method of the data."""
    parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=_seed)
    parser.link_arguments("data", "model.init_args.num_classes", compute_fn=_num_classes, apply_on="instantiate")
    parser.link_arguments("data", "model.init_args.kind", compute_fn=_kind, apply_on="instantiate")


def _seed(seed: int | bool) -> int:
    """The seed; ``true`` and ``false`` are Lightning's words for 0 and for none."""
    return 0 if isinstance(seed, bool) else seed


def _num_classes(data: TaskDataModule) -> int:
    return data.num_classes


def _kind(data: TaskDataModule) -> Kind:
    return data.task.kind
