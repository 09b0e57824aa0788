"""What ``lgx plan`` asks beside the options of ``lgx fit``."""

from dataclasses import dataclass

from lgx.errors import UserError


@dataclass(frozen=True)
class Options:
    """Where a run shall take place, and how fast that is.

    Attributes:
        gpus: GPUs, or processes, of every node; by default trainer.devices where that is a number, else 1.
        nodes: Nodes; by default trainer.num_nodes.
        throughput: Training examples per second and GPU, as measured elsewhere: gives hours.
        tflops: What a GPU does at best, in TFLOP/s of the run's precision: gives hours with mfu.
        mfu: Share of tflops that training reaches (model FLOPs utilization).
        measure: Run a few real steps of this configuration's network on synthetic data here, and scale their speed.
        samples: Training examples, in place of the number that is known of the set: 23976, or of several sets
            gtsrb=23976,ham10000=9013.
        json: File to write the plan to.

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

    def __post_init__(self) -> None:
        for option in ("gpus", "nodes", "throughput", "tflops", "mfu"):
            value = getattr(self, option)
            if value is not None and not 0 < value < float("inf"):
                raise UserError(f"--{option}: must be positive, got {value:g}")
        if self.mfu > 1:
            raise UserError(f"--mfu: a share in (0, 1], got {self.mfu:g}")
        if sum((self.throughput is not None, self.tflops is not None, self.measure)) > 1:
            raise UserError("--throughput, --tflops, --measure: three ways to say how fast it runs; give one of them")
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
                raise UserError(f"--samples: a number, or NAME=NUMBER,NAME=NUMBER of several sets, got {self.samples}")
            numbers[name.strip()] = int(number)
        return numbers.get(task, numbers.get(""))
