"""The size of a descendant by budget, ``9M`` parameters, ``1.2G`` MACs or ``5ms``.

The search is a loop over widths and MLP ratios, each as deep as the budget allows.
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import median
from typing import Any, Literal, NamedTuple

import torch

from lgx.architectures import Architecture, name_of
from lgx.architectures.cost import Cost, cost_of
from lgx.errors import UserError
from lgx.initialization.sizes import Sizes

Quantity = Literal["params", "macs", "latency"]

_UNUSED: dict[Quantity, float] = {"params": 0.02, "macs": 0.02, "latency": 0.1}
"""A network meets a budget if it uses all but this share; repeated measurements of time differ by as much."""

_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER = r"((?:(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?) *([a-zµ]*)"
"""A number and its unit; three digits follow a comma."""
_EXAMPLES = {"params": "9M", "macs": "1.2G", "latency": "5ms"}


class Budget(NamedTuple):
    """What a network may cost.

    Attributes:
        quantity: ``params``, the number of parameters; ``macs``, the multiply-accumulates of one example; or
            ``latency``, the seconds of a forward pass.
        limit: The largest value.
    """

    quantity: Quantity
    limit: float

    @property
    def least(self) -> float:
        """The smallest value that meets the budget."""
        return self.limit * (1 - _UNUSED[self.quantity])

    def __str__(self) -> str:
        return f"--{self.quantity} {amount(self.quantity, self.limit)}"


def amount(quantity: Quantity, value: float) -> str:
    """A value as a user may write it: ``5.72M``, ``5.1ms``."""
    if quantity == "latency":
        return f"{value * 1e3:.3g}ms"
    for suffix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.4g}{suffix}"
    return f"{value:.4g}"


def enough(quantity: Quantity, value: float) -> str:
    """The same rounded up: a budget that this value meets."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return amount(quantity, max(value, math.ceil(value / unit - 1e-9) * unit))


def parse_budgets(params: str | None = None, macs: str | None = None, latency: str | None = None) -> list[Budget]:
    """Read the budgets, without those that are None.

    Args:
        params: Number of parameters, e.g. ``9M``.
        macs: Multiply-accumulates of one example, e.g. ``1.2G``.
        latency: Time of a forward pass, e.g. ``5ms``.
    """
    limits: dict[Quantity, str | None] = {"params": params, "macs": macs, "latency": latency}
    return [Budget(quantity, _amount_of(quantity, text)) for quantity, text in limits.items() if text is not None]


def _amount_of(quantity: Quantity, text: str) -> float:
    units = _SECONDS if quantity == "latency" else _COUNTS
    match = re.fullmatch(_NUMBER, text.strip().lower())
    value = float(match[1].replace(",", "")) * units[match[2]] if match and match[2] in units else math.nan
    if not 0 < value < math.inf:
        units_in_words = ", ".join(_SECONDS) if quantity == "latency" else "k, M, G and T"
        decimals = "; commas separate thousands, so write decimals with a point, such as 1.5" if "," in text else ""
        raise UserError(
            f"--{quantity} {text}: expected a positive number such as {_EXAMPLES[quantity]}; the units are "
            f"{units_in_words}{decimals}"
        )
    return value


_GROWTH = 1.25
"""For a budget of time, each measured width is at least this factor times the width before."""
_LEAST_DEPTH = 2
"""With fewer whole layers of a source than this, narrower layers are preferred."""
_TRIALS = 3
"""Largest number of measured depths of a width after a wrong estimate."""


_WARM_UP, _LEAST, _MOST = 3, 15, 200
"""Number of untimed passes; smallest and largest number of timed passes."""
_MOST_SECONDS = 0.5
"""Seconds after which no more passes are made."""


class Stopwatch:
    """Times forward passes of networks with random weights in float32; every network once.

    Args:
        batch: Images of a pass.
        device: Where the networks run.
    """

    def __init__(self, batch: int = 1, device: str = "cpu") -> None:
        self.batch, self.device = batch, device
        self.measured: dict[Architecture, float] = {}

    def measure(self, network: Architecture) -> float:
        """The median of the seconds of a pass."""
        if network not in self.measured:
            model = network.build(None).eval().to(self.device)
            example = network.example_input()
            images = torch.zeros(self.batch, *example.shape[1:], dtype=example.dtype, device=self.device)
            self.measured[network] = seconds_of_pass(model, images)
        return self.measured[network]

    def taken(self, network: Any, budget: Budget) -> float:
        """What an architecture, or what is counted and timed like one, takes of a budget."""
        if budget.quantity == "latency":
            return self.measure(network)
        return cost_of(network).parameters if budget.quantity == "params" else cost_of(network).macs

    def parts(self, sizes: Sizes, embed_dim: int, mlp_ratio: float) -> tuple[float, float]:
        """Seconds outside the layers, and of one layer: measured with one and with three layers."""
        one, three = (self.measure(sizes.network(depth, embed_dim, mlp_ratio)) for depth in (1, 3))
        layer = max((three - one) / 2, one / 1000)  # noise may let three layers take less time than one
        return max(one - layer, 0.0), layer


def seconds_of_pass(model: Callable[[torch.Tensor], object], images: torch.Tensor) -> float:
    """The median of the seconds of a forward pass of images (B, C, H, W)."""
    times: list[float] = []
    for _ in range(_WARM_UP):
        _timed(model, images)
    while len(times) < _LEAST or (sum(times) < _MOST_SECONDS and len(times) < _MOST):
        times.append(_timed(model, images))
    return median(times)


@torch.inference_mode()
def _timed(model: Callable[[torch.Tensor], object], images: torch.Tensor) -> float:
    """Seconds of one forward pass of images (B, C, H, W)."""
    start = time.perf_counter()
    model(images)
    if images.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Candidate:
    """A size within the budgets.

    Attributes:
        sizes: The sizes that it belongs to.
        depth: Number of layers.
        embed_dim: Width.
        mlp_ratio: Hidden width of the MLP divided by the width.
        latency: Seconds of a forward pass; 0 where no budget limits them.
    """

    sizes: Sizes
    depth: int
    embed_dim: int
    mlp_ratio: float
    latency: float = 0.0

    @cached_property
    def architecture(self) -> Architecture:
        """The network."""
        return self.sizes.network(self.depth, self.embed_dim, self.mlp_ratio)

    @cached_property
    def cost(self) -> Cost:
        """Parameters, and MACs of one example."""
        outside, layer = cost_parts(self.sizes, self.embed_dim, self.mlp_ratio)
        return Cost(*(a + self.depth * b for a, b in zip(outside, layer, strict=True)))

    @property
    def imbalance(self) -> float:
        """Distance from the source's proportions.

        The logarithm of the factor between their ratios of depth to width, plus that between their MLP ratios, both
        without sign; 0 for equal proportions.
        """
        like = self.sizes.like
        slenderness = (self.depth / self.embed_dim) / (like.depth / like.embed_dim)
        return round(abs(math.log(slenderness)) + abs(math.log(self.mlp_ratio / like.mlp_ratio)), 6)

    @property
    def keeps_layers(self) -> bool:
        """Whether its layers have the source's sizes, and the start prefers whole layers.

        Fine-tuned, 3x192 is ahead of 6x128, which costs about as much (docs/results/equal-compute.md).
        """
        like = self.sizes.like
        widest = self.sizes.embed_dim[1]
        whole = self.embed_dim == like.embed_dim == widest and self.mlp_ratio == like.mlp_ratio
        return self.sizes.prefers_layers and whole and self.depth >= _LEAST_DEPTH

    def value(self, budget: Budget) -> float:
        """Its value of a budget's quantity."""
        return {"params": self.cost.parameters, "macs": self.cost.macs, "latency": self.latency}[budget.quantity]

    def unused(self, budgets: Sequence[Budget]) -> tuple[int, float]:
        """Number of budgets that it does not use up; if it uses up none, also the smallest unused share."""
        unmet = sum(self.value(budget) < budget.least for budget in budgets)
        share = min(1 - self.value(budget) / budget.limit for budget in budgets)
        return unmet, round(share, 2) if unmet == len(budgets) else 0.0


def find_sizes(
    sizes: Sizes, budgets: Sequence[Budget], most: int = 5, stopwatch: Stopwatch | None = None
) -> list[Candidate]:
    """Find the sizes that meet budgets.

    A budget is an upper limit, and each candidate is the deepest of its width and MLP ratio that keeps to it. It is met
    by up to 2 % less, one of time by up to 10 % less. The order of the candidates: whole layers of a source that is not
    exceeded in width, at least two, unless ``prefers_layers`` is false; those that meet more budgets; where no budget
    is met, those that are closest to one; those that are closest to the source's proportions of depth, width and MLP.
    The best of each width come before others of the same widths, and of candidates of equal depth and width the first
    one is listed. For a budget of time the MLP ratio is the source's.

    Args:
        sizes: The sizes to choose from.
        budgets: At least one.
        most: Number of candidates.
        stopwatch: Measures latency, where a budget limits it.
    """
    _check_ends(sizes, budgets, stopwatch)
    candidates: list[Candidate] = []
    for embed_dim in sizes.widths():
        if stopwatch is None:
            ratios = sizes.ratios(embed_dim)
        elif candidates and embed_dim < _GROWTH * candidates[-1].embed_dim and embed_dim != sizes.like.embed_dim:
            continue
        else:
            ratios = [min(max(sizes.like.mlp_ratio, sizes.mlp_ratio[0]), sizes.mlp_ratio[1])]
        deepest = [_deepest(sizes, embed_dim, ratio, budgets, stopwatch) for ratio in ratios]
        fitting = [candidate for candidate in deepest if candidate.depth >= sizes.depth[0]]
        if ratios and not fitting:
            break  # a wider network takes more
        candidates += fitting
    best = _best_of_each_width(candidates, budgets, most)
    if stopwatch is not None:
        measured = [_with_latency(candidate, budgets, stopwatch) for candidate in best]
        best = _best_of_each_width([candidate for candidate in measured if candidate is not None], budgets, most)
    if not best:
        raise UserError(
            f"{' and '.join(map(str, budgets))}: no network that the start can fill is within this budget; raise it"
        )
    return best


def _deepest(
    sizes: Sizes, embed_dim: int, mlp_ratio: float, budgets: Sequence[Budget], stopwatch: Stopwatch | None
) -> Candidate:
    """The deepest network of a width and MLP ratio within the budgets; it may be too shallow for the start."""
    outside, layer = cost_parts(sizes, embed_dim, mlp_ratio)
    parts: dict[str, tuple[float, float]] = {
        "params": (outside.parameters, layer.parameters), "macs": (outside.macs, layer.macs),
    }  # fmt: skip
    if stopwatch is not None:
        parts["latency"] = stopwatch.parts(sizes, embed_dim, mlp_ratio)
    limits = [(budget.limit - parts[budget.quantity][0]) / parts[budget.quantity][1] for budget in budgets]
    depth = math.floor(min([*limits, sizes.depth[1]]))
    latency = parts["latency"][0] + depth * parts["latency"][1] if stopwatch is not None else 0.0
    return Candidate(sizes, depth, embed_dim, mlp_ratio, latency)


def _with_latency(candidate: Candidate, budgets: Sequence[Budget], stopwatch: Stopwatch) -> Candidate | None:
    """A candidate at the largest measured depth within the latency budget; None if the smallest exceeds it."""
    sizes = candidate.sizes
    limit = next(budget.limit for budget in budgets if budget.quantity == "latency")
    others = [budget for budget in budgets if budget.quantity != "latency"]
    most = _deepest(sizes, candidate.embed_dim, candidate.mlp_ratio, others, None).depth
    tried: dict[int, Candidate] = {}
    depth = candidate.depth
    while depth not in tried and (len(tried) < _TRIALS or all(attempt.latency > limit for attempt in tried.values())):
        attempt = replace(candidate, depth=depth)
        tried[depth] = replace(attempt, latency=stopwatch.measure(attempt.architecture))
        depth = max(min(math.floor(depth * limit / tried[depth].latency), most), sizes.depth[0])
    fitting = [attempt for attempt in tried.values() if attempt.latency <= limit]
    return max(fitting, key=lambda attempt: attempt.depth, default=None)


def _best_of_each_width(candidates: Sequence[Candidate], budgets: Sequence[Budget], most: int) -> list[Candidate]:
    """The first ones, one of each depth and width: the best of each width, and then others."""

    def rank(candidate: Candidate) -> tuple[float, ...]:
        return not candidate.keeps_layers, *candidate.unused(budgets), candidate.imbalance, candidate.depth

    ordered = sorted(candidates, key=rank)
    of_width = {candidate.embed_dim: candidate for candidate in reversed(ordered)}
    chosen: dict[tuple[int, int], Candidate] = {}
    for candidate in (*sorted(of_width.values(), key=rank), *ordered):
        chosen.setdefault((candidate.depth, candidate.embed_dim), candidate)
    return sorted(list(chosen.values())[:most], key=rank)


def cost_parts(sizes: Sizes, embed_dim: int, mlp_ratio: float) -> tuple[Cost, Cost]:
    """Cost outside the layers, and of one layer; both are linear in the hidden width of the MLP."""
    narrow, wide = (_cost_parts_at(sizes, embed_dim, ratio) for ratio in (1.0, 2.0))
    more = int(embed_dim * mlp_ratio) - embed_dim

    def between(least: Cost, most: Cost) -> Cost:
        return Cost(*(a + (b - a) * more // embed_dim for a, b in zip(least, most, strict=True)))

    return between(narrow[0], wide[0]), between(narrow[1], wide[1])


@cache
def _cost_parts_at(sizes: Sizes, embed_dim: int, mlp_ratio: float) -> tuple[Cost, Cost]:
    """What :func:`cost_parts` gives, from the counts of networks with one and with two layers."""
    one, two = (cost_of(sizes.network(depth, embed_dim, mlp_ratio)) for depth in (1, 2))
    return (
        Cost(*(2 * a - b for a, b in zip(one, two, strict=True))),
        Cost(*(b - a for a, b in zip(one, two, strict=True))),
    )


def _check_ends(sizes: Sizes, budgets: Sequence[Budget], stopwatch: Stopwatch | None) -> None:
    """Refuse a budget below the smallest size, and one of parameters or MACs above the largest one."""
    for end, kind, nearest in ((0, "smallest", "least"), (-1, "largest", "most")):
        candidate = Candidate(sizes, sizes.depth[end], sizes.widths()[end], sizes.mlp_ratio[end])
        if stopwatch is not None and kind == "smallest":
            candidate = replace(candidate, latency=stopwatch.measure(candidate.architecture))
        for budget in budgets:
            value = candidate.value(budget)
            if value > budget.limit if kind == "smallest" else 0 < value < budget.least:
                shown = amount(budget.quantity, value)
                raise UserError(
                    f"{budget}: the {kind} network that the start can fill ({name_of(candidate.architecture)}) takes "
                    f"{shown}; give at {nearest} --{budget.quantity} {shown}"
                )
