"""Parse the configuration of a training command, and build the objects that it describes."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from operator import attrgetter
from typing import Any, ClassVar, cast

import lightning.pytorch
from jsonargparse import ActionYesNo, Namespace, set_parsing_settings
from jsonargparse.typing import PositiveInt
from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningArgumentParser
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from torch.optim.lr_scheduler import LRScheduler

from data_modules import TaskDataModule  # the import registers the short names of data modules
from lgx.components.features import ProbeName
from lgx.components.optim import length_argument
from lgx.core.names import check_line, check_name
from lgx.core.schema import all_values
from lgx.core.seed import check_seed, seed_of
from lgx.errors import UserError
from lgx.host.failures import blame
from lgx.host.warnings import silence_expected_warnings
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.training.callbacks.run_weights import BestCheckpoint
from lgx.training.lightning_internals import read_whole_numbers_first
from lgx.training.option_names import LINKED
from lgx.training.parsing import ConfigFile, parse, underscored
from lgx.training.trainer_parts import FOLLOW_RUN

REFUSED = "the configuration contains an invalid value"

_UNSUITED = {
    "SparseAdam": "needs sparse gradients, but networks have dense ones; give AdamW",
    "LRScheduler": "is only the base class of schedulers; give WarmupCosine",
    "GradientAccumulationScheduler": "changes the number of steps during the run, which schedules and plans need; give "
    "trainer.accumulate_grad_batches",
    "StochasticWeightAveraging": "replaces the schedule, and cannot resume; give EMAWeightAveraging",
}
"""Callbacks of Lightning -> why a run cannot have them."""

_FLAGS = {
    "overwrite": "Replace the run that the folder already holds.",
    "test_start": "Test the untrained start before training.",
    "test_end": "Test the final weights after training.",
    "untrained": "Evaluate the untrained start, without a checkpoint.",
    "split_batch": "Divide data.batch_size by the number of processes, so that more GPUs do not change the recipe.",
}
"""Boolean options -> help."""


class RunParser(LightningArgumentParser):
    """Lightning's parser with flags, loggers without a folder, and a list of the errors of built classes.

    Attributes:
        refused: Classes with their errors, in order; the caller clears it before it builds.
    """

    refused: ClassVar[list[tuple[type, Exception]]] = []  # of all: jsonargparse makes further parsers for classes

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_instantiator(self._build, object)

    def add_flag(self, name: str, help: str) -> None:
        """Add a boolean option: ``--name``, ``--name=false``, ``--no_name``."""
        self.add_argument(f"--{name}", action=ActionYesNo, nargs="?", default=False, help=help)

    def add_class_arguments(self, class_type: type, nested_key: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Add the arguments of a class; the folder of loggers and the length of schedulers follow the run."""
        if issubclass(class_type, LRScheduler):
            length = length_argument(class_type)
            if length != "total_steps":
                text = "Updates until the end of the schedule; by default the updates of the run."
                self.add_argument(f"--{length}", type=int | None, default=None, help=text)
            kwargs["skip"] = {*kwargs.get("skip", ()), length}
        added = super().add_class_arguments(class_type, nested_key, *args, **kwargs)
        if issubclass(class_type, Logger):
            follows = FOLLOW_RUN if issubclass(class_type, TensorBoardLogger) else FOLLOW_RUN[:1]
            self.set_defaults({key: "" for key in added if key.rpartition(".")[2] in follows})
        return added

    def _build(self, kind: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
        """Build an object, and note the class of one that cannot be built."""
        try:
            return kind(*arguments, **options)
        except Exception as error:
            self.refused.append((kind, error))  # type: ignore[arg-type]
            raise


def make_parser(command: str, extra: type | None = None) -> RunParser:
    """The parser of a training command.

    A process makes each parser once, because this takes a tenth of the time of a short run.
    """
    silence_expected_warnings()
    registry.load_all()
    set_parsing_settings(import_path_denylist=[])  # refuses what jsonargparse's own list denies, instead of a warning
    return _new_parser(command, extra)


@cache
def _new_parser(command: str, extra: type | None) -> RunParser:
    parser = RunParser(
        prog=f"lgx {command}",
        description="Options may also come from configuration files (--config). The last value of an option counts.",
        default_config_files=[str(resources.files("lgx.training") / "defaults.yaml")],
        dump_header=[f"lightning.pytorch=={lightning.pytorch.__version__}"],
        exit_on_error=False,
        allow_abbrev=False,  # an abbreviation would accept a misspelt option
    )
    parser.add_argument("-c", "--config", action=ConfigFile, help="Configuration file in YAML.")
    parser.add_argument("--seed_everything", type=bool | int, default=0, help="Seed of the run; false sets none.")
    read_whole_numbers_first(Trainer)
    parser.add_lightning_class_args(Trainer, "trainer")
    parser.add_lightning_class_args(Method, "model", subclass_mode=True)
    parser.add_lightning_class_args(TaskDataModule, "data", subclass_mode=True)
    _add_run_options(parser)
    if command == "test":
        text = "Accuracy of a classifier on the features, in place of the head: k nearest neighbors, or linear."
        parser.add_argument("--probe", type=ProbeName | None, default=None, help=text)
    if extra is not None:
        parser.add_class_arguments(extra, skip={"json"})
        parser.add_flag("json", "Print JSON instead of a table.")
    _link(parser)
    return parser


def parse_configuration(parser: RunParser, argv: Sequence[str]) -> Namespace:
    """Parse a command line and the configuration files that it names."""
    for word in underscored(argv):
        option = word.partition("=")[0]
        linked = option.removeprefix("--")
        if linked in LINKED:
            raise UserError(f"{option}: follows {LINKED[linked]}; leave it out")
    config = parse(parser, argv)
    _check_values(config)
    return config


def instantiate(parser: RunParser, config: Namespace) -> Namespace:
    """Build what a configuration describes, without the trainer.

    Args:
        parser: The parser that has parsed the configuration.
        config: The configuration.

    Returns:
        The configuration with objects in place of their classes and arguments: ``model``, ``data``, ....
    """
    parser.refused.clear()
    with blame(REFUSED):
        try:
            return cast(Namespace, parser.instantiate_classes(config))
        except Exception as error:
            # jsonargparse tries every type of an option, and raises another error if all types fail.
            if isinstance(error.__cause__, UserError):  # of a link
                raise error.__cause__ from error
            if not parser.refused:
                raise
            kind, cause = parser.refused[-1]
            with blame(f"the configuration contains a value that {kind.__name__} refuses"):
                raise cause from error


def configuration_text(parser: RunParser, config: Namespace) -> str:
    """A configuration as YAML, without ``ckpt_path`` and ``overwrite``, which belong to one start of the run only."""
    config = config.clone()
    config.ckpt_path = None
    config.overwrite = False
    return str(parser.dump(config, skip_unset=False, skip_validation=True))


def _add_run_options(parser: RunParser) -> None:
    """Add the run's folder, flags and best checkpoint."""
    parser.add_argument("--runs_dir", type=str, default="runs", help="Folder of all experiments.")
    parser.add_argument("--experiment", type=str, default="default", help="Folder for runs that you will compare.")
    parser.add_argument("--name", type=str | None, default=None, help="Name of the run; default: the method.")
    for name, text in _FLAGS.items():
        parser.add_flag(name, text)
    text = "Checkpoint: best, last or a file. By default fit starts a new run; other commands use the run's weights."
    parser.add_argument("--ckpt_path", type=str | None, default=None, help=text)
    text = "Stop after this number of validations without a better score."
    parser.add_argument("--early_stop", type=PositiveInt | None, default=None, help=text)
    parser.add_argument(
        "--save_every", type=PositiveInt | None, default=None, help="Steps between further saves of last.ckpt."
    )
    parser.add_lightning_class_args(BestCheckpoint, "checkpoint")


def _link(parser: RunParser) -> None:
    """Pass the run's seed to the data, and facts of the data to the method."""
    parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=seed_of)
    parser.link_arguments(
        "data", "model.init_args.num_classes", compute_fn=attrgetter("num_classes"), apply_on="instantiate"
    )
    parser.link_arguments("data", "model.init_args.kind", compute_fn=attrgetter("task.kind"), apply_on="instantiate")


def _check_values(config: Namespace) -> None:
    """Refuse values that would fail later in an unclear way, or write outside the run's folder."""
    if not isinstance(config.seed_everything, bool):
        check_seed(config.seed_everything, "--seed_everything")
    check_line(config.runs_dir, "--runs_dir")
    check_name(config.experiment, "--experiment")
    if config.name is not None:
        check_name(config.name, "--name")
    for name in ("accumulate_grad_batches", "val_check_interval", "check_val_every_n_epoch"):
        value = config.trainer[name]
        if isinstance(value, int | float) and value <= 0:
            raise UserError(f"trainer.{name}: expected more than 0, got {value}")
    strategy = config.trainer.strategy
    if isinstance(strategy, str) and any(word in strategy for word in ("notebook", "spawn", "fork")):
        raise UserError(f"trainer.strategy: the processes of {strategy} return no results; give ddp")
    for place, value in all_values(config.as_dict()):
        if place.endswith(".class_path") and (why := _UNSUITED.get(value.rpartition(".")[2])):
            raise UserError(f"{place}: {value} {why}")
        if place.endswith((".filename", ".sub_dir")) and isinstance(value, str):
            check_name(value, place)
        elif place.startswith("model.scheduler.") and type(value) is int and value < 1 and "last_epoch" not in place:
            raise UserError(f"{place}: expected at least 1 update, got {value}")
