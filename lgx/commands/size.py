"""The size of a descendant by budget, for ``lgx init``."""

from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table

from lgx.architectures import ViTArchitecture
from lgx.core.provenance import hardware
from lgx.initialization import Initializer
from lgx.initialization.sizing import Budget, Candidate, amount, find_sizes
from lgx.initialization.sizing.latency import Stopwatch


def choose_size(
    initializer: Initializer,
    arch: str | None,
    num_classes: int | None,
    budgets: Sequence[Budget],
    batch_size: int = 1,
) -> str:
    """Print the sizes that meet budgets, and return the first one.

    Depth, width and MLP ratio are chosen among the sizes that the start can fill. Of the sizes that meet the budgets,
    the one closest to the source's ratios of depth to width and of MLP to width comes first.

    Args:
        initializer: The start.
        arch: The sizes that are fixed.
        num_classes: Classes of the head; None for the source's.
        budgets: Upper limits, at least one.
        batch_size: Images of a pass whose latency is measured, on a GPU where there is one.

    Returns:
        The specification of an architecture.

    Raises:
        UserError: If no size that the start can fill meets a budget.
    """
    is_timed, on_gpu = any(budget.quantity == "latency" for budget in budgets), torch.cuda.is_available()
    classes = num_classes or initializer.origin().num_classes or ViTArchitecture().num_classes
    sizes = initializer.sizes().with_fixed(arch, classes)
    stopwatch = Stopwatch(batch_size, "cuda" if on_gpu else "cpu") if is_timed else None
    found = find_sizes(sizes, budgets, stopwatch=stopwatch)
    caption = f"{classes} classes, {sizes.like.img_size} px; the first one is written"
    if is_timed:
        caption += f"\nlatency of {batch_size} image(s), float32, {hardware(on_gpu)}: median"
    _print_sizes(found, caption)
    chosen = found[0].architecture.spec()
    print(f"chosen    --arch {chosen}")
    return chosen


def _print_sizes(found: Sequence[Candidate], caption: str) -> None:
    """Print a row for each size, the best one first."""
    heads = ("depth", "embed_dim", "num_heads", "mlp_ratio", "parameters", "MACs")
    table = Table(*heads, *(["latency (ms)"] if found[0].latency else []), caption=caption, caption_justify="left")
    for size in found:
        network, cost = size.architecture, size.cost
        numbers = (network.depth, network.embed_dim, network.num_heads, network.mlp_ratio)
        amounts = [amount("params", cost.parameters), amount("macs", cost.macs)]
        time = [f"{1e3 * size.latency:.3g}"] if size.latency else []
        table.add_row(*(f"{value:g}" for value in numbers), *amounts, *time)
    Console().print(table)
