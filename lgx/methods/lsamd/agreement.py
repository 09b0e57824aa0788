"""Does a selection find anything? Agreement of its runs beyond chance, and what their data sets need."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import stats

from lgx.methods.lsamd.selection import Selection


@dataclass(frozen=True)
class Chance:
    """Whether some layers are used by more data sets, and others by fewer, than if each choice were a coin flip.

    Attributes:
        statistic: χ² of the usage of the layers against a binomial with the mean share of base blocks.
        p: Its p-value.
    """

    statistic: float
    p: float


@dataclass(frozen=True)
class Agreement:
    """What two runs have in common.

    Attributes:
        kappa: Cohen's κ of their paths over all data sets and layers that both have: 1 where all agree, 0 as by chance;
            None where a run takes one kind of block alone in all layers.
        rho: Spearman's ρ of their swap profiles, mean over the data sets; None where one did not measure them.
    """

    kappa: float | None
    rho: float | None


def against_chance(selection: Selection) -> Chance | None:
    """Compare the usage of layers with a binomial; None where all or no layers use base blocks."""
    sets, usage = len(selection.paths), np.asarray(selection.usage, float)
    share = float(usage.mean()) / sets
    if not 0 < share < 1:
        return None
    statistic = float(((usage - sets * share) ** 2).sum() / (sets * share * (1 - share)))
    return Chance(statistic, float(stats.chi2.sf(statistic, len(usage) - 1)))


def agreement(one: Selection, other: Selection) -> Agreement:
    """Compare two runs over the data sets that both have."""
    common = [name for name in one.paths if name in other.paths]
    first, second = ([used for name in common for used in selection.paths[name]] for selection in (one, other))
    ranked = [name for name in common if name in one.swap_rise and name in other.swap_rise]
    rhos = [float(stats.spearmanr(one.swap_rise[name], other.swap_rise[name]).statistic) for name in ranked]
    return Agreement(_kappa(first, second), fmean(rhos) if rhos else None)


def _kappa(first: Sequence[bool], second: Sequence[bool]) -> float | None:
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    equal = fmean(a == b for a, b in zip(first, second, strict=True))
    share, other = fmean(first), fmean(second)
    by_chance = share * other + (1 - share) * (1 - other)
    return (equal - by_chance) / (1 - by_chance)


def ranked_layers(selections: Sequence[Selection]) -> list[int]:
    """The layers, from the one whose own block is needed least: by the mean rank of their rises over sets and runs.

    Args:
        selections: Runs that measured swaps; empty gives no layers.
    """
    profiles = [stats.rankdata(rise) for selection in selections for rise in selection.swap_rise.values()]
    return [int(layer) for layer in np.argsort(np.mean(profiles, axis=0), kind="stable")] if profiles else []
