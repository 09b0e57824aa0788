"""Parse a configuration of ``lgx fit``, and build only its method and data module."""

from dataclasses import dataclass, fields

from jsonargparse import Namespace
from jsonargparse.typing import PositiveFloat, PositiveInt

from data_modules.base import TaskDataModule
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.training.configuration import instantiate, make_parser, parse_configuration
from lgx.training.sources import resolve_sources


@dataclass(frozen=True)
class PlanOptions:
    """The hardware of a planned run and its speed.

    Attributes:
        gpus: GPUs or processes per node; by default trainer.devices if it is a number, otherwise 1.
        nodes: Number of nodes; by default trainer.num_nodes.
        throughput: Training examples per second and GPU, measured elsewhere; the plan then shows hours. Without
            effect beside --tflops.
        tflops: Peak TFLOP/s of a GPU at the run's precision; together with --mfu, the plan shows hours.
        mfu: Share of the peak that training reaches (model FLOPs utilization).
        samples: Number of training examples, instead of the known number: 23976, or for several sets
            gtsrb=23976,ham10000=9013.
        json: Print JSON instead of a table.
    """

    gpus: PositiveInt | None = None
    nodes: PositiveInt | None = None
    throughput: PositiveFloat | None = None
    tflops: PositiveFloat | None = None
    mfu: PositiveFloat = 0.4
    samples: int | str | None = None
    json: bool = False

    def samples_of(self, task: str) -> int | None:
        """Training examples that the user gives for a task."""
        parts = str(self.samples).split(",") if self.samples is not None else []
        try:
            numbers = {name.strip(): int(number) for name, _, number in (part.rpartition("=") for part in parts)}
        except ValueError as error:
            raise UserError(f"--samples: expected a number, or NAME=NUMBER,NAME=NUMBER, got {self.samples}") from error
        return numbers.get(task, numbers.get(""))


@dataclass(frozen=True)
class Configured:
    """What a configuration describes.

    Attributes:
        method: The method, without network and trainer.
        data: The data module, before reading.
        trainer: Arguments of the trainer.
        checkpoint: Arguments of the best checkpoint.
        options: Those of the plan.
        splits_batch: Whether the batch size is the sum over all processes.
    """

    method: Method
    data: TaskDataModule
    trainer: Namespace
    checkpoint: Namespace
    options: PlanOptions
    splits_batch: bool


def configure(argv: list[str]) -> Configured:
    """Read a configuration.

    Args:
        argv: Options of ``lgx fit`` and of :class:`PlanOptions`.
    """
    parser = make_parser("fit", PlanOptions)
    config = parse_configuration(parser, argv)
    local = resolve_sources(config, download=False).config
    local.trainer.logger = False  # some loggers connect when they are built
    built = instantiate(parser, local)
    options = PlanOptions(**{field.name: config[field.name] for field in fields(PlanOptions)})
    of_trainer = (config.trainer, config.checkpoint, options, config.split_batch)
    return Configured(built.model, built.data, *of_trainer)
