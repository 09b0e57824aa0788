"""The paths of several runs of LSAMD: which base blocks each data set uses, and what two runs have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from lgx.methods.lsamd.selection import Selection, SelectionRun, routing_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def against_chance(selection: Selection) -> Any:
    """Test whether some layers are used by more data sets, and others by fewer, than if each choice were a coin flip.

    Returns:
        scipy's result: ``statistic`` is χ² of the usage of the layers against a binomial with the mean share of base
        blocks, ``pvalue`` its p-value. None where all or no layers use base blocks.
    """
    usage, sets = np.asarray(selection.usage), len(selection.paths)
    if not 0 < usage.mean() < sets:
        return None
    return stats.chi2_contingency([usage, sets - usage], correction=False)


def agreement(one: Selection, other: Selection) -> Agreement:
    """Compare two runs over the data sets that both have."""
    from sklearn.metrics import cohen_kappa_score  # slow to import, and training draws figures with this module

    common = [name for name in one.paths if name in other.paths]
    first, second = ([used for name in common for used in selection.paths[name]] for selection in (one, other))
    kappa = float(cohen_kappa_score(first, second)) if len(set(first)) == len(set(second)) == 2 else None
    ranked = [name for name in common if name in one.swap_rise and name in other.swap_rise]
    rhos = [float(stats.spearmanr(one.swap_rise[name], other.swap_rise[name]).statistic) for name in ranked]
    return Agreement(kappa, fmean(rhos) if rhos else None)


def ranked_layers(selections: Sequence[Selection]) -> list[int]:
    """The layers, from the one whose own block is needed least: by the mean rank of their rises over sets and runs.

    Args:
        selections: Runs that measured swaps; empty gives no layers.
    """
    profiles = [stats.rankdata(rise) for selection in selections for rise in selection.swap_rise.values()]
    return [int(layer) for layer in np.argsort(np.mean(profiles, axis=0), kind="stable")] if profiles else []


def load_runs(runs: Sequence[str]) -> dict[str, Selection]:
    """Read the paths of at least one run, by the name that the user gave it.

    Args:
        runs: Folders of runs, or checkpoints. Several that are joined by ``+`` are one selection: runs over other data
            sets with the same routing.

    Raises:
        UserError: If one is not a run of LSAMD, or those of one selection do not fit together.
    """
    parts = {joined: [SelectionRun.load(run).selection for run in _parts(joined)] for joined in runs}
    return {joined: reduce(Selection.merged, own) for joined, own in parts.items()}


def preferences_figure(selections: Mapping[str, Selection]) -> "Figure":
    """Draw the preferences of runs side by side (LSAMD, Fig. 7)."""
    short = {_title(run): selection for run, selection in selections.items()}
    titled = short if len(short) == len(selections) else selections
    return routing_figure({f"{name} ({s.routing})": s.base_share for name, s in titled.items()})


def common_layers(one: Selection, other: Selection) -> dict[str, list[int]]:
    """Layers whose base block both selections use, for every data set that is in both (LSAMD, Fig. 7)."""
    both = {name: zip(path, other.paths[name], strict=True) for name, path in one.paths.items() if name in other.paths}
    return {name: [layer for layer, used in enumerate(pairs) if all(used)] for name, pairs in both.items()}


def comparison_lines(selections: Mapping[str, Selection]) -> list[str]:
    """Sentences on what runs found: layers that two of them share, and whether they agree beyond chance."""
    lines, pairs = [], list(combinations(selections.items(), 2))
    if len(pairs) == 1:
        both = common_layers(*selections.values())
        lines += [f"both      {task}: {' '.join(map(str, layers)) or 'no layer'}" for task, layers in both.items()]
    for run, selection in selections.items():
        chance = against_chance(selection)
        found = "one kind of block alone" if chance is None else f"χ² {chance.statistic:.1f}, p = {chance.pvalue:.3f}"
        lines.append(f"{run}: usage against coin flips: {found}")
    for (one, first), (other, second) in pairs:
        if first.paths.keys() & second.paths.keys():
            values = agreement(first, second)
            kappa, rho = ("not defined" if value is None else f"{value:+.2f}" for value in (values.kappa, values.rho))
            lines.append(f"{one} and {other}: κ of the paths {kappa}, Spearman's ρ of the swap profiles {rho}")
    if ranked := ranked_layers(list(selections.values())):
        lines.append(f"layers from the one whose own block is needed least: {' '.join(map(str, ranked))}")
    return lines


def _parts(joined: str) -> list[str]:
    """The runs of one selection; a folder may have a ``+`` in its own name."""
    return [joined] if Path(joined).exists() else joined.split("+")


def _title(joined: str) -> str:
    first, *others = _parts(joined)
    return f"{'/'.join(Path(first).parts[-2:])}{f' and {len(others)} more' if others else ''}"
