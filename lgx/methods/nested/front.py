"""The front of a family: which sizes the end of its training measures, their table and their figure."""

import csv
from collections.abc import Iterable, Mapping
from itertools import islice
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lgx.architectures import Architecture
from lgx.architectures.cost import cost_of
from lgx.components.metrics import metrics_for, update_metrics
from lgx.core.batch import Batch
from lgx.core.progress import tracked
from lgx.core.readable import aligned, in_words, measured
from lgx.host.files import atomic_path
from lgx.initialization import Sizes
from lgx.initialization.sizing import enough
from lgx.methods.nested.sizes import KEYS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZES, _WIDTHS = 40, 4
"""About how many sizes, and how many widths at most, the grid has."""

Scores = Mapping[Architecture, float]
"""Validation score of each size, from the smallest to the largest."""


def grid(whole: Architecture, least_depth: int, least_width: int) -> list[Architecture]:
    """Some forty sizes from the smallest to the whole network: depths and widths, each with half of the MLP and all.

    Args:
        whole: The whole network.
        least_depth: Fewest layers.
        least_width: Smallest width.
    """
    sizes = Sizes.within(whole)
    widths = _spread([each for each in sizes.widths() if each >= least_width], _WIDTHS)
    found = []
    depths = _spread([*range(least_depth, whole.depth + 1)], _SIZES // (2 * len(widths)))
    for width in widths:
        half = min(sizes.ratios(width), key=lambda ratio: abs(ratio - whole.mlp_ratio / 2))
        ratios = dict.fromkeys((half, whole.mlp_ratio))
        found += [sizes.network(depth, width, ratio) for depth in depths for ratio in ratios]
    return found


def _spread(values: list[int], most: int) -> list[int]:
    """Evenly spaced values, with the first and the last one."""
    count = min(most, len(values))
    return [values[round(place * (len(values) - 1) / max(1, count - 1))] for place in range(count)]


@torch.no_grad()
def measured_front(method: Any, sizes: list[Architecture]) -> dict[Architecture, float]:
    """Score the slices on all validation images; every process measures its share of them.

    Args:
        method: The family, which has the weights of its run; its trainer has its data.
        sizes: The sizes to measure.
    """
    trainer, task, module = method.trainer, method.task, method.data_module()
    sizes = sorted(set(sizes), key=Architecture.count_parameters)
    metrics = {size: metrics_for(task).to(method.device) for size in sizes}
    method.eval()
    limit = trainer.num_val_batches[0]
    batches: Iterable[Batch] = islice(module.val_dataloader(), None if isinf(limit) else int(limit))
    for batch in tracked(batches, f"measuring {len(metrics)} sizes:") if trainer.is_global_zero else batches:
        images = trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(batch))
        with trainer.precision_plugin.val_step_context():
            for size, metric in metrics.items():
                update_metrics(metric, method.logits(size, images.inputs).float(), images.targets)
    return {size: float(metric[task.metric].compute()) for size, metric in metrics.items()}


def best_of(front: Scores) -> list[Architecture]:
    """The sizes that are better than every smaller one, by parameters, from the smallest to the largest."""
    found: list[Architecture] = []
    for size in sorted(front, key=lambda size: (size.count_parameters(), -front[size])):
        if not found or front[size] > front[found[-1]]:
            found.append(size)
    return found


def describe(front: Scores, metric: str) -> str:
    """The table of the sizes that are better than every smaller one, for the terminal."""
    lines = [["depth", "width", "heads", "MLP ratio", "parameters", "MACs", in_words(metric)]]
    for size in best_of(front):
        cost, numbers = cost_of(size), (size.depth, size.embed_dim, size.num_heads, size.mlp_ratio)
        amounts = enough("params", cost.parameters), enough("macs", cost.macs)
        lines.append([*(f"{number:g}" for number in numbers), *amounts, measured(front[size], metric)])
    return "\n".join(f"{'':<11}{line}" for line in aligned(lines, left=0))


def write_table(front: Scores, metric: str, path: Path) -> None:
    """Write all sizes as CSV; ``best`` marks those that are better than every smaller one."""
    best = best_of(front)
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*KEYS, "parameters", "macs", f"val_{metric}", "best"])
        for size, score in front.items():
            cost = cost_of(size)
            numbers = (getattr(size, key) for key in KEYS)
            writer.writerow([*numbers, cost.parameters, cost.macs, score, int(size in best)])


def front_figure(front: Scores, metric: str, listed: list[Architecture]) -> "Figure":
    """Draw score against parameters and MACs; a line joins the sizes that are better than every smaller one.

    Args:
        front: The sizes and their scores.
        metric: Name of the score.
        listed: The sizes that each step has trained.
    """
    from lgx.components.figures import make_panels

    figure, panels = make_panels(2, share_y=True)
    for axes, quantity in zip(panels, ("parameters", "macs"), strict=True):
        place = {size: getattr(cost_of(size), quantity) / 1e6 for size in front}
        best = best_of(front)
        axes.plot([place[size] for size in best], [front[size] for size in best], color="#8c8c8c", zorder=1)
        for label, sizes, color in (
            ("trained in each step", [size for size in front if size in listed], "#d55e00"),
            ("other sizes", [size for size in front if size not in listed], "#0072b2"),
        ):
            axes.scatter(
                [place[size] for size in sizes], [front[size] for size in sizes], s=14, color=color, label=label
            )
        axes.set_xlabel(f"{'MACs of an image' if quantity == 'macs' else quantity} (millions)")
    panels[0].set_ylabel(f"{in_words(metric)} in validation")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure
