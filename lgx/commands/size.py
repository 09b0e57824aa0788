"""Choose the size of a descendant by budgets, for ``lgx init``, also by k-NN accuracy before any training."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.components.features import Probe, frozen_features
from lgx.core.batch import Batch
from lgx.core.progress import tracked
from lgx.core.provenance import hardware
from lgx.core.task import size_text
from lgx.initialization import Initializer, initialize
from lgx.initialization.sizing import Budget, Candidate, Stopwatch, amount, find_sizes

_MOST = 2000
"""Largest number of training images and of validation images."""


def choose_size(
    initializer: Initializer,
    arch: str | None,
    num_classes: int | None,
    budgets: Sequence[Budget],
    data: str | None,
    seed: int,
) -> str:
    """Print the sizes that meet budgets, and return the first one.

    Candidates are the sizes that the start can fill. Their order is that of
    :func:`~lgx.initialization.sizing.find_sizes`. With ``data``, the size comes first whose untrained features have the
    highest k-NN accuracy on validation images.

    Args:
        initializer: The start.
        arch: The fixed values.
        num_classes: Classes of the head; None for the source's.
        budgets: Upper limits, at least one.
        data: Data set by name, or folder with ``train/<class>/<image>``.
        seed: Seed of random parameters of the starts that ``data`` compares.

    Returns:
        The specification of an architecture.
    """
    is_timed = any(budget.quantity == "latency" for budget in budgets)
    on_gpu = torch.cuda.is_available()
    classes = num_classes or initializer.origin().num_classes or 1000
    sizes = initializer.sizes().with_fixed(arch, classes)
    stopwatch = Stopwatch(device="cuda" if on_gpu else "cpu") if is_timed else None
    candidates = find_sizes(sizes, budgets, stopwatch=stopwatch)
    limits = " and ".join(map(str, budgets))
    like = sizes.like
    inputs = (
        f"{size_text(like.img_size)} px"
        if isinstance(like, ViTArchitecture)
        else f"{like.example_input().shape[-1]} tokens"
    )
    outputs = like.outputs if classes == like.num_classes else f"{classes} classes"
    caption = f"{outputs}, {inputs}; each is the deepest of its width and MLP within {limits}"
    if is_timed:
        caption += f"\nlatency of a batch of 1, float32, {hardware(on_gpu)}: median"
    scores: dict[Architecture, float] = {}
    if data is not None:
        scores = knn_scores([size.architecture for size in candidates], initializer, data, seed)
        candidates.sort(key=lambda size: -scores[size.architecture])
        caption += f"\nk-NN: validation images of {data}, before training"
    _print_sizes(candidates, caption, scores)
    chosen = initializer.size_text(candidates[0].architecture)
    why = "it is closest to the source's proportions"
    if scores:
        why = "its k-NN accuracy is the highest"
    elif candidates[0].keeps_layers:
        why = "it keeps whole layers of the source"
    print(f"chosen    {why}: --arch {chosen}")
    return chosen


def _print_sizes(candidates: Sequence[Candidate], caption: str, scores: Mapping[Architecture, float]) -> None:
    """Print a row for each size, the best one first."""
    heads = ("depth", "embed_dim", "num_heads", "mlp_ratio", "parameters", "MACs")
    measured = [*(["latency (ms)"] if candidates[0].latency else []), *(["k-NN (%)"] if scores else [])]
    table = Table(*heads, *measured, caption=caption, caption_justify="left")
    for size in candidates:
        network, cost = size.architecture, size.cost
        numbers = (network.depth, network.embed_dim, network.num_heads, network.mlp_ratio)
        amounts = [amount("params", cost.parameters), amount("macs", cost.macs)]
        time = [f"{1e3 * size.latency:.3g}"] if size.latency else []
        accuracy = [f"{100 * scores[network]:.2f}"] if scores else []
        table.add_row(*(f"{value:g}" for value in numbers), *amounts, *time, *accuracy)
    Console().print(table)


def knn_scores(
    architectures: Sequence[Architecture], initializer: Initializer, data: str, seed: int
) -> dict[Architecture, float]:
    """k-NN accuracy of each start on validation images.

    Args:
        architectures: The networks, which read images of one size.
        initializer: Starts them.
        data: Data set by name, or folder with ``train/<class>/<image>``.
        seed: Seed of random parameters.
    """
    from data_modules.catalog import open_classes  # takes seconds

    like = vit_only(architectures[0], "--data")
    inputs = initializer.normalization(), initializer.origin().reading
    module = open_classes("--data", data, like.img_size, like.in_chans, *inputs)
    scores = {}
    for architecture in tracked(architectures, "measuring", unit="networks"):
        torch.manual_seed(seed)
        network = initialize(architecture, initializer, head="new").model.eval()
        train_features, train_labels = _features(network, module.reference_dataloader(_MOST))
        tested, tested_labels = _features(network, module.val_dataloader())
        scores[architecture] = Probe("knn").accuracy(train_features, train_labels, tested, tested_labels)
    return scores


def _features(network: nn.Module, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Features (N, T) and labels (N,) of the first images."""
    features = []
    labels = []
    seen = 0
    for batch in batches:
        features.append(frozen_features(network, batch.inputs))
        labels.append(batch.targets)
        seen = seen + len(batch.inputs)
        if seen >= _MOST:
            break
    return torch.cat(features), torch.cat(labels)
