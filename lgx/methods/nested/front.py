"""The front of a family: which sizes the end of its training measures, their table and their figure."""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lgx.architectures import Architecture
from lgx.architectures.cost import cost_of
from lgx.components.metrics import metrics_for, update_metrics
from lgx.core.batch import Batch
from lgx.core.progress import tracked
from lgx.core.readable import aligned, in_words, is_share, measured
from lgx.host.files import atomic_path
from lgx.initialization import Front, Sizes
from lgx.initialization.sizing import enough
from lgx.methods.nested.sizes import KEYS, WHOLE_NETWORK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZES, _WIDTHS = 40, 4
"""About how many sizes, and how many widths at most, the grid has."""
_FAR = 0.1
"""If the best network of half of the ancestor's parameters lacks so much of its score, a longer training is advised."""


def size_grid(whole: Architecture, least_depth: int, least_width: int) -> list[Architecture]:
    """Some forty sizes from the smallest to the whole network: depths and widths, each with half of the MLP and all.

    Args:
        whole: The whole network.
        least_depth: Fewest layers.
        least_width: Smallest width.
    """
    sizes = Sizes.within(whole)
    widths = _spread([each for each in sizes.widths() if each >= least_width], _WIDTHS)
    networks = []
    depths = _spread([*range(least_depth, whole.depth + 1)], _SIZES // (2 * len(widths)))
    for width in widths:
        half = min(sizes.ratios(width), key=lambda ratio: abs(ratio - whole.mlp_ratio / 2))
        ratios = dict.fromkeys((half, whole.mlp_ratio))
        networks += [sizes.network(depth, width, ratio) for depth, ratio in product(depths, ratios)]
    return networks


def _spread(values: list[int], most: int) -> list[int]:
    """Evenly spaced values, with the first and the last one."""
    count = min(most, len(values))
    return [values[round(index * (len(values) - 1) / max(1, count - 1))] for index in range(count)]


@torch.no_grad()
def measured_front(method: Any, sizes: Iterable[Architecture]) -> Front | None:
    """Score the slices on all validation examples; every process measures its share of them.

    Scores that are not finite are left out; None if no score is finite.

    Args:
        method: The family, which has the weights of its run; its trainer has its data.
        sizes: The sizes to measure.
    """
    task = method.task
    ordered = sorted(dict.fromkeys(sizes), key=lambda size: (cost_of(size).parameters, size.spec()))
    metrics = {size: metrics_for(task).to(method.device) for size in ordered}
    for batch in validated_batches(method, f"measuring {len(metrics)} sizes:"):
        for size, metric in metrics.items():
            update_metrics(metric, method.logits(size, batch.inputs).float(), batch.targets)
    scores = {size: float(metric[task.metric].compute()) for size, metric in metrics.items()}
    finite = {size: score for size, score in scores.items() if math.isfinite(score)}
    return Front(task.metric, finite, int(metrics[ordered[0]]["n"].compute())) if finite else None


def validated_batches(method: Any, words: str) -> Iterator[Batch]:
    """The validation batches of this process, see :func:`evaluated_batches`."""
    batches = _limited(method.data_module().val_dataloader(), method.trainer.limit_val_batches)
    return evaluated_batches(method, batches, words)


def evaluated_batches(method: Any, batches: Iterable[Batch], words: str) -> Iterator[Batch]:
    """The batches of this process, on its device and in the precision of a validation.

    Args:
        method: The method, in evaluation mode from now on.
        batches: What its loader gives.
        words: What the progress bar says.
    """
    trainer = method.trainer
    method.eval()
    for batch in tracked(batches, words) if trainer.is_global_zero else batches:
        with trainer.precision_plugin.val_step_context():
            yield trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(batch))


def _limited(loader: Any, limit: float) -> Iterable[Batch]:
    """The batches of a validation.

    ``num_val_batches`` of a trainer is empty if a run is resumed that has no epochs left.
    """
    if isinstance(limit, int):
        return islice(loader, limit)
    return loader if limit == 1 else islice(loader, int(len(loader) * limit))


def best_of(front: Front, quantity: str = "parameters") -> list[Architecture]:
    """The sizes that are better than every smaller one, by parameters or ``macs``, from the smallest to the largest."""
    best: list[Architecture] = []
    for size in sorted(front.scores, key=lambda size: (getattr(cost_of(size), quantity), -front.gain(size))):
        if not best or front.gain(size) > front.gain(best[-1]):
            best.append(size)
    return best


def knee(front: Front) -> Architecture:
    """The smallest size whose score is within one standard error of the best; only that of an accuracy is known."""
    *_, best = sizes = best_of(front)
    share = front.scores[best]
    margin = 0.0
    if front.metric == "acc" and front.examples:
        margin = math.sqrt(share * (1 - share) / front.examples)
    return next(size for size in sizes if front.gain(size) >= front.gain(best) - margin)


def compared(front: Front, whole: Architecture) -> list[str]:
    """Sentences on the ancestor, and on the best network of at most half of its parameters.

    Args:
        front: The measured sizes.
        whole: The ancestor's size.
    """
    if whole not in front.scores:
        return []
    of_whole = cost_of(whole).parameters
    small = [size for size in front.scores if 2 * cost_of(size).parameters <= 1.05 * of_whole]
    words = f"ancestor {measured(front.scores[whole], front.metric)}"
    if not small:
        return [words]
    best = max(small, key=lambda size: (front.gain(size), -cost_of(size).parameters))
    share = cost_of(best).parameters / of_whole
    lines = [f"{words}, best slice {measured(front.scores[best], front.metric)} with {share:.0%} of the parameters"]
    if is_share(front.metric) and front.gain(whole) - front.gain(best) > _FAR:
        lines.append("the slices are far below the ancestor: train longer, with a larger --model.compute")
    return lines


def front_text(front: Front) -> str:
    """The table of the sizes that are better than every smaller one, for the terminal."""
    lines = [["depth", "width", "heads", "MLP ratio", "parameters", "MACs", in_words(front.metric)]]
    for size in best_of(front):
        cost = cost_of(size)
        numbers = (size.depth, size.embed_dim, size.num_heads, size.mlp_ratio)
        amounts = enough("params", cost.parameters), enough("macs", cost.macs)
        score = measured(front.scores[size], front.metric)
        lines.append([*(f"{number:g}" for number in numbers), *amounts, score])
    return "\n".join(f"{'':<11}{line}" for line in aligned(lines, left=0))


def write_table(
    front: Front, whole: Architecture, path: Path, columns: Mapping[str, Mapping[Architecture, float]]
) -> None:
    """Write all sizes as CSV; ``best`` marks those that are better than every smaller one.

    Args:
        front: The sizes and their scores.
        whole: The ancestor's size.
        path: The file.
        columns: Further scores of sizes, by name.
    """
    best = best_of(front)
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [f"val_{name}" for name in (front.metric, *columns)]
        writer.writerow(["network", *KEYS, "parameters", "macs", *names, "best"])
        for size, score in front.scores.items():
            cost = cost_of(size)
            name = WHOLE_NETWORK if size == whole else "slice"
            numbers = (getattr(size, key) for key in KEYS)
            others = (column.get(size, "") for column in columns.values())
            writer.writerow([name, *numbers, cost.parameters, cost.macs, score, *others, int(size in best)])


def front_figure(front: Front, trained: list[Architecture], whole: Architecture) -> "Figure":
    """Draw score against parameters and MACs; a line joins the sizes that are better than every smaller one.

    Args:
        front: The sizes and their scores.
        trained: The sizes that were trained.
        whole: The ancestor's size, which may not have been measured.
    """
    from lgx.components.figures import make_panels

    figure, panels = make_panels(2, share_y=True)
    groups = (
        (WHOLE_NETWORK, [size for size in front.scores if size == whole], "#000000", "*"),
        ("trained sizes", [size for size in front.scores if size in trained and size != whole], "#d55e00", "o"),
        ("other sizes", [size for size in front.scores if size not in trained], "#0072b2", "o"),
    )
    for axes, quantity in zip(panels, ("parameters", "macs"), strict=True):
        amounts = {size: getattr(cost_of(size), quantity) / 1e6 for size in front.scores}
        best = best_of(front, quantity)
        axes.plot([amounts[size] for size in best], [front.scores[size] for size in best], color="#8c8c8c", zorder=1)
        for label, sizes, color, marker in groups:
            points = [amounts[size] for size in sizes], [front.scores[size] for size in sizes]
            if sizes:
                axes.scatter(*points, s=48 if marker == "*" else 14, color=color, marker=marker, label=label)
        axes.set_xlabel(f"{'MACs of an example' if quantity == 'macs' else quantity} (millions)")
    panels[0].set_ylabel(f"{in_words(front.metric)}\nin validation")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure
