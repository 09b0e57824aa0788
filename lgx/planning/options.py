"""Options of ``lgx plan`` beside those of ``lgx fit``."""

from dataclasses import dataclass

from lgx.errors import UserError


@dataclass(frozen=True)
class Options:
    """The hardware of a planned run and its speed.

    Attributes:
        gpus: GPUs or processes per node; by default trainer.devices where that is a number, otherwise 1.
        nodes: Nodes; by default trainer.num_nodes.
        throughput: Training examples per second and GPU, measured elsewhere; the plan then shows hours.
        tflops: Peak TFLOP/s of a GPU at the run's precision; with mfu the plan then shows hours.
        mfu: Share of the peak that training reaches (model FLOPs utilization).
        measure: Time a few steps of this network on synthetic data on this machine; the plan then shows hours.
        samples: Number of training examples, instead of the known number of the data set: 23976, or for several sets
            gtsrb=23976,ham10000=9013.
        json: File to write the plan to.
        force: Replace a file that another command or program wrote.

    Raises:
        UserError: If a number is out of range, or the speed is given in several ways.
    """

    gpus: int | None = None
    nodes: int | None = None
    throughput: float | None = None
    tflops: float | None = None
    mfu: float = 0.4
    measure: bool = False
    samples: int | str | None = None
    json: str | None = None
    force: bool = False

    def __post_init__(self) -> None:
        for option in ("gpus", "nodes", "throughput", "tflops", "mfu"):
            value = getattr(self, option)
            if value is not None and not 0 < value < float("inf"):
                raise UserError(f"--{option}: must be positive, got {value:g}")
        if self.mfu > 1:
            raise UserError(f"--mfu: expected a share in (0, 1], got {self.mfu:g}")
        if sum((self.throughput is not None, self.tflops is not None, self.measure)) > 1:
            raise UserError("--throughput, --tflops, --measure: each of them says how fast the run is; give only one")
        self.known_samples("")

    def known_samples(self, task: str) -> int | None:
        """Training examples that the user gives for a task.

        Raises:
            UserError: If ``samples`` is neither a number nor a list of sets and numbers.
        """
        parts = str(self.samples).split(",") if self.samples is not None else []
        numbers = {}
        for part in parts:
            name, equals, number = part.rpartition("=")
            if not number.isdecimal() or int(number) < 1 or (len(parts) > 1 and not equals):
                raise UserError(
                    f"--samples: expected a number, or NAME=NUMBER,NAME=NUMBER for several sets, got {self.samples}"
                )
            numbers[name.strip()] = int(number)
        return numbers.get(task, numbers.get(""))
