"""The cost of N descendants: parameters to store, and training."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from lgx.results.looks import method_order
from lgx.results.merging import Place
from lgx.results.report import EMPTY_CELL, Cell, Section, Table

BACKWARD = 2
"""Multiplications of a backward pass per one of a forward pass: for the gradients of inputs and of weights."""

COST = "Cost"
"""Title of the section with the cost."""


@dataclass(frozen=True)
class Work:
    """An amount of training.

    Attributes:
        epochs: Epochs as the papers count them: every epoch is 1, for any network and data set.
        macs: Multiply-accumulates, i.e. image passes x MACs; None where unknown.
        seconds: Measured wall time; None where it was not measured.
    """

    epochs: float = 0.0
    macs: float | None = 0.0
    seconds: float | None = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.epochs + other.epochs, _sum(self.macs, other.macs), _sum(self.seconds, other.seconds))


@dataclass(frozen=True)
class Training:
    """The training of one network.

    Attributes:
        macs: MACs of one image's forward pass; None where unknown.
        epochs: Epochs.
        images: Images of all epochs together; None where unknown.
        teacher_macs: MACs of one image through a frozen teacher, which has no backward pass; None where unknown.
        seconds: Wall time, s; None where not measured.
    """

    macs: float | None
    epochs: float
    images: float | None
    teacher_macs: float | None = 0.0
    seconds: float | None = None

    @property
    def work(self) -> Work:
        """The amount of training: each image costs a forward and a backward pass, and the teacher's forward pass."""
        if self.macs is None or self.images is None or self.teacher_macs is None:
            return Work(self.epochs, None, self.seconds)
        return Work(self.epochs, self.images * ((1 + BACKWARD) * self.macs + self.teacher_macs), self.seconds)


@dataclass(frozen=True)
class Descendant:
    """A network for one task.

    Attributes:
        architecture: Name of the architecture.
        task: Name of the task.
        macs: MACs of one image's forward pass.
        parameters: Parameters to store if it were pretrained separately.
        training: Its training on the task.
    """

    architecture: str
    task: str
    macs: float
    parameters: int
    training: Training


@dataclass(frozen=True)
class MethodCost:
    """The cost of a set of descendants with one method.

    Attributes:
        method: Name of the method.
        architectures: Number of architectures.
        descendants: Number of descendants: one per architecture and task.
        stored: Parameters that must be stored to start all of them; None where unknown.
        each: Parameters to store if every architecture had its own pretrained network.
        ancestor: Training of the ancestors, which the papers take as given.
        learning: Training of the sources of the descendants: learngene, hypernetwork, or pretrained networks.
        tuning: Training of the descendants.
        scratch: Measured training of the same descendants from scratch; None where it was not measured.
        pretraining: Pretraining of every architecture for as long as the learngene was trained; None without a
            learngene.
    """

    method: str
    architectures: int
    descendants: int
    stored: int | None
    each: int
    ancestor: Work
    learning: Work
    tuning: Work
    scratch: Work | None = None
    pretraining: Work | None = None

    @property
    def total(self) -> Work:
        """Training without the ancestor's."""
        return self.learning + self.tuning

    @property
    def separately(self) -> Work | None:
        """Pretraining of every architecture, followed by the same training of the descendants."""
        return None if self.pretraining is None else self.pretraining + self.tuning


def method_cost(
    method: str,
    descendants: Sequence[Descendant],
    learning: Sequence[Training] = (),
    ancestors: Sequence[Training] = (),
    stored: int | None = 0,
    scratch: Mapping[Place, Training] | None = None,
    shared: bool = True,
) -> MethodCost:
    """Add up the cost of a method.

    Args:
        method: Name of the method.
        descendants: At least one; one per architecture and task.
        learning: Trainings of the sources of the descendants.
        ancestors: Trainings of the ancestors of these sources.
        stored: Parameters that must be stored.
        scratch: Trainings from scratch by task and architecture.
        shared: Whether all descendants start from one source; False where each architecture has its own.
    """
    kinds = list({d.architecture: d for d in descendants}.values())
    alone = [(scratch or {}).get((d.task, d.architecture)) for d in descendants]
    known = [training for training in alone if training is not None]
    instead = [Training(kind.macs, run.epochs, run.images) for kind in kinds for run in learning]
    return MethodCost(
        method=method,
        architectures=len(kinds),
        descendants=len(descendants),
        stored=stored,
        each=sum(kind.parameters for kind in kinds),
        ancestor=_total(ancestors),
        learning=_total(learning),
        tuning=_total(d.training for d in descendants),
        scratch=_total(known) if len(known) == len(descendants) else None,
        pretraining=_total(instead) if shared and learning else None,
    )


def storage_table(costs: Sequence[MethodCost]) -> Table:
    """Parameters to store, in millions, or in thousands where all are small."""
    small = all(cost.each < 1e6 for cost in costs)
    unit, letter = (1e3, "k") if small else (1e6, "M")

    def cells(cost: MethodCost) -> list[str]:
        stored, fewer, saved = EMPTY_CELL, EMPTY_CELL, EMPTY_CELL
        if cost.stored is not None:
            stored, fewer = f"{cost.stored / unit:.2f}", _ratio(cost.each, cost.stored)
        if cost.stored:
            saved = f"{100 * (1 - cost.stored / cost.each):.2f} %"
        return [str(cost.architectures), stored, f"{cost.each / unit:.2f}", fewer, saved]

    columns = ("architectures", f"stored ({letter})", f"a network each ({letter})", "times fewer", "saved")
    return _table("Parameters stored to start all descendants", columns, costs, cells)


def epochs_table(costs: Sequence[MethodCost]) -> Table:
    """Training in epochs."""

    def cells(cost: MethodCost) -> list[str]:
        works = (cost.ancestor, cost.learning, cost.tuning)
        others = (cost.scratch, cost.separately)
        ratios = (_ratio(other.epochs if other else None, cost.total.epochs) for other in others)
        return [str(cost.descendants), *(f"{work.epochs:g}" for work in works), *ratios]

    columns = ("descendants", "ancestor", "learngene", "tuning", "scratch needs", "pretraining each needs")
    return _table("Training in epochs", columns, costs, cells)


def macs_table(costs: Sequence[MethodCost]) -> Table:
    """Training in multiply-accumulates, and its hours."""
    works = [work for cost in costs for work in (cost.ancestor, cost.total) if work.macs]
    unit, name = _unit(max((work.macs or 0 for work in works), default=0))

    def amount(macs: float | None) -> str:
        return EMPTY_CELL if macs is None else f"{macs / unit:.3g}"

    def cells(cost: MethodCost) -> list[str]:
        others = (cost.scratch, cost.separately)
        ratios = (_ratio(other.macs if other else None, cost.total.macs) for other in others)
        hours = EMPTY_CELL if cost.total.seconds is None else f"{cost.total.seconds / 3600:.3g}"
        return [*(amount(work.macs) for work in (cost.ancestor, cost.learning, cost.tuning)), *ratios, hours]

    columns = ("ancestor", "learngene", "tuning", "scratch needs", "pretraining each needs", "hours")
    return _table(f"Training in image passes x MACs, {name}", columns, costs, cells)


def cost_section(costs: Sequence[MethodCost]) -> Section:
    """Cost of the descendants with each of at least one method."""
    text = [
        "Stored are the parameters that start all architectures, compared with a pretrained network for each of them.",
        "Tuning is the training of all descendants, one per architecture and task. The last columns compare two other "
        "ways with the method's own training, learngene and tuning together: training the same descendants from "
        "scratch, as measured with a random start, and pretraining every architecture for as long as the learngene was "
        "trained, followed by the same tuning. The ratios leave out ancestors, which the papers take as given.",
        "In epochs every epoch counts the same, as in the papers. In MACs an image costs three forward passes of the "
        "network, which includes the backward pass, and one forward pass of the teacher if there is one. A dash means "
        "not measured or unknown, for example the MACs of a hypernetwork, whose networks change with every step.",
    ]
    return Section(COST, text, [storage_table(costs), epochs_table(costs), macs_table(costs)])


def _table(
    title: str, columns: tuple[str, ...], costs: Sequence[MethodCost], cells: Callable[[MethodCost], list[str]]
) -> Table:
    ordered = sorted(costs, key=lambda cost: method_order(cost.method))
    return Table(title, columns, tuple((cost.method, tuple(map(Cell, cells(cost)))) for cost in ordered))


def _ratio(other: float | None, own: float | None) -> str:
    return f"{other / own:.2f}x" if other is not None and own else EMPTY_CELL


def _unit(largest: float) -> tuple[float, str]:
    """The unit that gives the largest amount one to three digits before the point."""
    units = ((1e18, "1e18"), (1e15, "1e15"), (1e12, "1e12"), (1e9, "1e9"))
    return next((unit for unit in units if largest >= unit[0]), units[-1])


def _total(trainings: Iterable[Training]) -> Work:
    return reduce(Work.__add__, (training.work for training in trainings), Work())


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
