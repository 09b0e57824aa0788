"""Search for the sizes that meet a budget."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from lgx.architectures import ViTArchitecture
from lgx.errors import UserError
from lgx.initialization.sizing.budget import Budget, amount
from lgx.initialization.sizing.counts import count, law_of
from lgx.initialization.sizing.latency import Clock, Latency
from lgx.initialization.sizing.space import Shape, Space

_CONTRADICTION = 0.5
"""Two budgets contradict each other if one leaves less than this share of the other."""
_TRIALS = 3
"""Depths of a width that are measured at most, until one is within the latency."""


@dataclass(frozen=True)
class Candidate:
    """A size that keeps to the budgets.

    Attributes:
        space: The space that it belongs to.
        depth: Number of layers.
        shape: Their width, heads and MLP.
        parameters: Number of parameters.
        macs: MACs of one example.
        imbalance: Distance from the source's proportions, see :meth:`~lgx.initialization.sizing.space.Space.imbalance`.
        latency: Time of a forward pass; None where it was not asked for.
    """

    space: Space
    depth: int
    shape: Shape
    parameters: int
    macs: int
    imbalance: float
    latency: Latency | None = None

    @classmethod
    def estimated(cls, space: Space, depth: int, shape: Shape, clock: Clock | None) -> "Candidate":
        """A size with the costs that follow from those of other sizes."""
        cost, latency = law_of(space.like).cost(depth, shape.embed_dim, shape.mlp_ratio), None
        if clock is not None:
            outside, inside = clock.parts(shape.embed_dim, shape.mlp_ratio)
            latency = Latency(*[outside + depth * inside] * 3)
        return cls(space, depth, shape, cost.parameters, cost.macs, space.imbalance(depth, shape), latency)

    @cached_property
    def architecture(self) -> ViTArchitecture:
        """The network."""
        return self.space.network(self.depth, self.shape)

    def value(self, budget: Budget) -> float:
        """What it takes of a budget's kind."""
        if budget.what == "latency":
            return math.nan if self.latency is None else self.latency.seconds
        return self.parameters if budget.what == "params" else self.macs


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        candidates: The best sizes, the best one first; those of equal rank are next to each other.
        equal: How many of the first ones meet the budgets alike, and differ in their proportions only.
        notes: Lines for the terminal: why no candidate meets a budget; other work on the machine.
    """

    candidates: list[Candidate]
    equal: int
    notes: list[str] = field(default_factory=list)


def find_sizes(space: Space, budgets: Sequence[Budget], most: int = 5, batch: int = 1, device: str = "cpu") -> Found:
    """Find the sizes that meet budgets.

    A budget is an upper limit. It is met within 2 %, one of time also by up to 10 % less. The order of the candidates:
    those that meet more budgets; those that exceed none; where no budget is met, those that are closest to one; those
    that are closest to the source's proportions of depth, width and MLP. Of candidates of equal depth and width the
    first one is listed.

    Args:
        space: The sizes to choose from.
        budgets: At least one.
        most: Number of candidates.
        batch: Images of a forward pass whose latency is measured.
        device: Where latency is measured.

    Raises:
        UserError: If the smallest size exceeds a budget, the largest one is below it, or budgets contradict each other.
    """
    law = law_of(space.like)
    limits = {budget.what: budget for budget in budgets}
    clock = Clock(space, law, limits["latency"].limit, batch, device) if "latency" in limits else None
    _check_ends(space, budgets, clock)
    estimated = [Candidate.estimated(space, depth, shape, clock) for depth, shape in _shapes(space, budgets, clock)]
    best = _best(estimated, budgets, most)
    if clock is not None:
        best = _best([_measured(candidate, budgets, clock) for candidate in best], budgets, most)
    counted = _best(_counted(best), budgets, most) if best else []
    if not counted:
        raise UserError(f"{' and '.join(map(str, budgets))}: no size was measured within it; give a larger one")
    _check_contradiction(counted, budgets)
    alike = sum(_rank(candidate, budgets)[:3] == _rank(counted[0], budgets)[:3] for candidate in counted)
    return Found(counted, alike, [*_notes(counted[0], space, budgets), *(clock.warnings if clock else ())])


def _shapes(space: Space, budgets: Sequence[Budget], clock: Clock | None) -> Iterator[tuple[int, Shape]]:
    """Each width and MLP at the depths just below and just above the tightest budget."""
    least, most = space.sizes.depth
    for width in space.widths():
        shapes, fits = list(space.shapes(width)), False
        for shape in shapes:
            depth = min(_depth(shape, budget, space, clock) for budget in budgets)
            fits = fits or depth >= least
            for near in {math.floor(depth), math.ceil(depth)}:
                if least <= near <= most or (near > most and near == math.floor(depth)):
                    yield min(near, most), shape
        if shapes and not fits and width > space.sizes.embed_dim[0]:
            return


def _depth(shape: Shape, budget: Budget, space: Space, clock: Clock | None) -> float:
    """The depth at which a budget is used up, not rounded."""
    if budget.what == "latency":
        assert clock is not None
        outside, inside = clock.parts(shape.embed_dim, shape.mlp_ratio)
    else:
        costs = law_of(space.like).parts(shape.embed_dim, shape.mlp_ratio)
        outside, inside = (cost.parameters if budget.what == "params" else cost.macs for cost in costs)
    return (budget.limit - outside) / inside


def _measured(candidate: Candidate, budgets: Sequence[Budget], clock: Clock) -> Candidate:
    """A candidate with its latency measured, at a smaller or larger depth where the estimate was wrong."""
    space, shape, depth = candidate.space, candidate.shape, candidate.depth
    (limit,) = (budget.limit for budget in budgets if budget.what == "latency")
    outside, _ = clock.parts(shape.embed_dim, shape.mlp_ratio)
    others = [_depth(shape, budget, space, None) for budget in budgets if budget.what != "latency"]
    tried: dict[int, Candidate] = {}
    while depth not in tried and len(tried) < _TRIALS:
        latency = clock.measure(space.network(depth, shape))
        tried[depth] = replace(Candidate.estimated(space, depth, shape, None), latency=latency)
        inside = max(latency.seconds - outside, latency.seconds / 2) / depth
        depth = math.floor(min([(limit - outside) / inside, space.sizes.depth[1], *others]))
        depth = max(depth, space.sizes.depth[0])
    return min(tried.values(), key=lambda found: (_exceeds(found, budgets), _rank(found, budgets)))


def _counted(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with counts of their own networks, if the law does not hold for their family."""
    first = candidates[0]
    if count(first.architecture) == (first.parameters, first.macs):
        return list(candidates)
    costs = [count(candidate.architecture) for candidate in candidates]
    return [
        replace(candidate, parameters=cost.parameters, macs=cost.macs)
        for candidate, cost in zip(candidates, costs, strict=True)
    ]


def _best(candidates: Sequence[Candidate], budgets: Sequence[Budget], most: int) -> list[Candidate]:
    """The first ones, one of each depth and width."""
    chosen: dict[tuple[int, int], Candidate] = {}
    for candidate in sorted(candidates, key=lambda candidate: _rank(candidate, budgets)):
        if not _exceeds(candidate, budgets):
            chosen.setdefault((candidate.depth, candidate.shape.embed_dim), candidate)
    return list(chosen.values())[:most]


def _exceeds(candidate: Candidate, budgets: Sequence[Budget]) -> bool:
    return any(candidate.value(budget) > budget.most for budget in budgets)


def _rank(candidate: Candidate, budgets: Sequence[Budget]) -> tuple[int, bool, float, float, int, Shape]:
    """Sorts candidates; see :func:`find_sizes`."""
    used = [candidate.value(budget) / budget.limit for budget in budgets]
    unmet = sum(candidate.value(budget) < budget.least for budget in budgets)
    distance = round(1 - max(used), 2) if unmet == len(budgets) else 0.0
    return unmet, max(used) > 1, distance, round(candidate.imbalance, 6), candidate.depth, candidate.shape


def _check_ends(space: Space, budgets: Sequence[Budget], clock: Clock | None) -> None:
    """Refuse a budget below the smallest size or above the largest one."""
    for budget in budgets:
        for network, nearest in ((space.smallest, "least"), (space.largest, "most")):
            if budget.what == "latency":
                assert clock is not None
                if nearest == "most":
                    shape = Shape(network.embed_dim, network.num_heads, network.mlp_ratio)
                    if network.depth > _depth(shape, budget, space, clock):
                        continue  # too slow to measure
                value = clock.measure(network).seconds
            else:
                cost = law_of(space.like).cost(network.depth, network.embed_dim, network.mlp_ratio)
                value = cost.parameters if budget.what == "params" else cost.macs
            is_wrong = value > budget.most if nearest == "least" else value < budget.least
            if is_wrong:
                end = "smallest" if nearest == "least" else "largest"
                raise UserError(
                    f"{budget}: the {end} network that {space.owner} fills ({network.spec()}) takes "
                    f"{budget.words(value)}; give at {nearest} --{budget.what} {amount(budget.what, value)}"
                )


def _check_contradiction(candidates: Sequence[Candidate], budgets: Sequence[Budget]) -> None:
    """Refuse a budget of which the others leave less than half."""
    for budget in budgets:
        most = max(candidate.value(budget) for candidate in candidates)
        if len(budgets) > 1 and most < budget.limit * _CONTRADICTION:
            others = " and ".join(str(other) for other in budgets if other != budget)
            raise UserError(
                f"{budget} and {others} contradict each other: within {others} a network takes "
                f"{budget.words(most)}; give --{budget.what} {amount(budget.what, most)}, or leave one out"
            )


def _notes(first: Candidate, space: Space, budgets: Sequence[Budget]) -> Iterator[str]:
    """Why the first candidate does not meet a budget."""
    for budget in budgets:
        value = first.value(budget)
        if value < budget.least:
            others = [str(other) for other in budgets if other != budget and first.value(other) >= other.least]
            reason = f"{' and '.join(others)} is tighter" if others else f"{space.freedom} alone can vary"
            short = 100 * (1 - value / budget.limit)
            yield f"note      {budget.words(value)}, {short:.0f} % less than {budget}: {reason}"
