"""Trials of the training of families in plain torch, all forms at one total compute.

After ``lgx data prepare mini`` and with the ancestor of ``compare.yaml``, ``python -m experiments.family.trials`` adds
its rows to ``experiments/results/family_trials.csv``, and continues where it was stopped.
"""

import csv
import math
import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from data_modules import MiniDecathlon
from data_modules.images.transforms import CropFlip
from lgx.architectures import Architecture
from lgx.architectures.cost import cost_of
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.methods.nested.front import size_grid
from lgx.methods.nested.sizes import default_sizes, parse_size, size_names
from lgx.methods.nested.slicing import ordered, slice_network, sliced
from lgx.methods.weight_subcloning.importance import on_inputs
from lgx.methods.weight_subcloning.initializer import layers_by_change

ROWS, ANCESTOR = Path("experiments/results/family_trials.csv"), "runs/deit_tiny_64"
COLUMNS = ("form", "updates", "task", "seed", "split", "size", "is_trained", "accuracy")
SETS = {"flowers12": None, "dtd10": None, "gtsrb": 1290, "cifar10": 1000}
"""Sets, and the number of their training images."""
FORMS: dict[str, dict[str, Any]] = {
    "separate, first layers": {"rule": "first", "is_separate": True},
    "separate, layers by change": {"rule": "change", "is_separate": True},
    "three sizes, first layers": {"rule": "first", "whole": False},
    "first layers": {"rule": "first"},
    "layers by change": {"rule": "change"},
    "evenly spaced layers": {"rule": "even"},
    "first layers and the last": {"rule": "before_last"},
    "layers by change, random sizes": {"rule": "change", "has_random": True},
    "first layers and the last, random sizes": {"rule": "before_last", "has_random": True},
}
BATCH, RATE, DECAY, WARMUP, MEASURED = 16, 5e-4, 0.05, 0.1, 300
UNLISTED = ("depth=12", "depth=4", "depth=9,embed_dim=128", "depth=4,embed_dim=128")


def pixels_of(task: str, limit: int | None) -> dict[str, tuple[Any, Tensor]]:
    """Pixels (N, 3, 64, 64) and labels of each split, shuffled."""
    module = MiniDecathlon(task=task, root="data", img_size=64, batch_size=64, augment="none", limit_train=limit)
    module.setup("fit")
    module.setup("test")
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (module.task.mean, module.task.std))
    found = {}
    loaders = {"train": module.train_dataloader(), "val": module.val_dataloader(), "test": module.test_dataloader()}
    for split, loader in loaders.items():
        batches = [module.on_after_batch_transfer(batch, 0) for batch in loader]
        pixels = torch.cat([(b.inputs * std + mean).mul(255).round().clamp(0, 255).byte() for b in batches]).numpy()
        order = np.random.default_rng(5).permutation(len(pixels))
        found[split] = pixels[order], torch.cat([batch.targets for batch in batches])[order]
    return found


def layers_of(rule: str, depth: int, by_change: list[int]) -> list[int]:
    """The layers, those that shallow slices have first."""
    even = [0, depth - 1]
    while len(even) < depth:
        places = sorted(even)
        start, gap = max(((a, b - a) for a, b in pairwise(places)), key=lambda p: (p[1], -p[0]))
        even.append(start + gap // 2)
    orders = {"first": [*range(depth)], "before_last": [0, depth - 1, *range(1, depth - 1)], "change": by_change}
    return orders.get(rule, even)


class Trial:
    """One set and seed: its images, and the ordered ancestor with a new head."""

    def __init__(self, source: PretrainedNetwork, task: str, seed: int) -> None:
        self.data, self.seed, known = pixels_of(task, SETS[task]), seed, source.require_known("trials")
        self.mean, self.std = (torch.tensor(v).view(1, 3, 1, 1) for v in (source.mean, source.std))
        classes = int(max(labels.max() for _, labels in self.data.values())) + 1
        self.whole = known.replace(num_classes=classes)
        chosen = np.random.default_rng(seed).permutation(len(self.data["train"][0]))[:64]
        inputs, model = self.normalized(self.data["train"][0][chosen]), source.model.eval()
        tensors, _ = ordered(source.tensors, known, on_inputs(model, known, inputs))
        torch.manual_seed(seed)
        head = nn.init.trunc_normal_(torch.empty(classes, known.embed_dim), std=0.02)
        self.start = {**tensors, "head.weight": head, "head.bias": torch.zeros(classes)}
        self.by_change = layers_by_change(model, known, inputs[:24])

    def normalized(self, pixels: Any) -> Tensor:
        """Images as the network reads them."""
        return (torch.from_numpy(pixels).float() / 255 - self.mean) / self.std

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of augmented images, without end."""
        pixels, labels = self.data["train"]
        generator, crop = np.random.default_rng(1000 + self.seed), CropFlip((64, 64))
        while True:
            order = generator.permutation(len(pixels))
            for first in range(0, len(order) - BATCH + 1, BATCH):
                chosen = order[first : first + BATCH]
                seeds = [int(seed) for seed in generator.integers(0, 2**31, BATCH)]
                yield self.normalized(crop(pixels[chosen], seeds)), labels[chosen]

    def train(self, sizes: list[Architecture], sequence: list[int], layers: list[int]) -> dict[str, Tensor]:
        """Train slices one after the other; ``sequence`` has the size of each update."""
        tensors = {name: tensor.clone().requires_grad_() for name, tensor in self.start.items()}
        decayed = {k for k, t in tensors.items() if t.ndim > 1 and "embed" not in k and "token" not in k}
        groups: list[dict[str, Any]] = [
            {"params": [t for k, t in tensors.items() if (k in decayed) == decays], "weight_decay": DECAY * decays}
            for decays in (True, False)
        ]
        optimizer, total, done = torch.optim.AdamW(groups, lr=RATE), sum(cost_of(sizes[k]).macs for k in sequence), 0.0
        for place, (inputs, labels) in zip(sequence, self.batches(), strict=False):
            size = sizes[place]
            now, done = (done + cost_of(size).macs / 2) / total, done + cost_of(size).macs
            share = max(now / WARMUP, 0.02) if now < WARMUP else 0.5 + 0.5 * math.cos(math.pi * (now - WARMUP) / 0.9)
            for group in optimizer.param_groups:
                group["lr"] = RATE * share
            optimizer.zero_grad()
            nn.functional.cross_entropy(self.logits(tensors, size, layers, inputs, True), labels).backward()
            nn.utils.clip_grad_norm_(tensors.values(), 1.0)
            optimizer.step()
        return {name: tensor.detach() for name, tensor in tensors.items()}

    def logits(
        self, tensors: dict[str, Tensor], size: Architecture, layers: list[int], inputs: Tensor, training: bool = False
    ) -> Tensor:
        """Logits of a slice."""
        network = _network(size).train(training)
        cut = sliced(tensors, self.whole, size, layers, training=training)
        result: Tensor = functional_call(network, cut, (inputs,), tie_weights=False)
        return result

    @torch.no_grad()
    def accuracy(self, tensors: dict[str, Tensor], size: Architecture, layers: list[int], split: str) -> float:
        """Share of correct predictions on a part of a split."""
        pixels, labels = (part[:MEASURED] for part in self.data[split])
        parts = [self.logits(tensors, size, layers, self.normalized(p)) for p in np.array_split(pixels, 5)]
        return float((torch.cat(parts).argmax(1) == labels).float().mean())


@cache
def _network(size: Architecture) -> nn.Module:
    return slice_network(size, torch.device("cpu"), torch.float32)


def equal_compute(costs: list[float], total: float) -> list[int]:
    """A sequence of places in which each takes the same compute at any time."""
    spent, sequence = [0.0] * len(costs), list[int]()
    while True:
        place = min(range(len(costs)), key=lambda k: spent[k] + costs[k] / 2)
        if sum(spent) + costs[place] > 1.0001 * total:
            return sequence
        spent[place] += costs[place]
        sequence.append(place)


def run(
    trial: Trial, updates: int, rule: str, is_separate: bool = False, whole: bool = True, has_random: bool = False
) -> Iterator[tuple[str, str, bool, float]]:
    """Split, size, whether it was trained, and accuracy."""
    layers, listed = layers_of(rule, trial.whole.depth, trial.by_change), default_sizes(trial.whole)
    costs = [float(cost_of(size).macs) for size in listed]
    total = updates * len(costs) / sum(1 / cost for cost in costs)
    names = dict(zip([*listed, trial.whole], size_names([*listed, trial.whole], trial.whole), strict=True))
    if is_separate:
        for size, cost in zip(listed, costs, strict=True):
            tensors = trial.train([size], [0] * round(total / len(costs) / cost), layers)
            yield from ((s, names[size], True, trial.accuracy(tensors, size, layers, s)) for s in ("val", "test"))
        return
    sizes = [*listed, *([trial.whole] if whole else [])]
    costs = [float(cost_of(size).macs) for size in sizes]
    if has_random:
        others = size_grid(trial.whole, 3, 128)
        weights = [1 / cost_of(size).macs for size in others]
        generator, mean, first = random.Random(trial.seed), len(others) / sum(weights), len(sizes)
        sequence = equal_compute([*costs, mean], total)
        draw = [first + generator.choices(range(len(others)), weights)[0] for _ in sequence]
        sequence, sizes = [k if k < first else d for k, d in zip(sequence, draw, strict=True)], [*sizes, *others]
    else:
        sequence = equal_compute(costs, total)
    tensors, trained = trial.train(sizes, sequence, layers), {*sizes[: len(costs)]}
    for size in dict.fromkeys([*listed, *(parse_size(text, trial.whole) for text in UNLISTED)]):
        name = names.get(size, f"{size.depth}x{size.embed_dim}")
        for split in ("val", "test"):
            yield split, name, size in trained, trial.accuracy(tensors, size, layers, split)


def main() -> None:
    """Measure what has no row yet."""
    rows = list(csv.DictReader(ROWS.open(encoding="utf-8"))) if ROWS.is_file() else []
    done, source = {(row["form"], row["updates"], row["task"], row["seed"]) for row in rows}, load_pretrained(ANCESTOR)
    for task in SETS:
        for seed in (0, 1):
            trial = Trial(source, task, seed)
            for form, options in FORMS.items():
                for updates in (400,):
                    if (form, str(updates), task, str(seed)) in done:
                        continue
                    found = [(form, updates, task, seed, *each) for each in run(trial, updates, **options)]
                    with ROWS.open("a", encoding="utf-8", newline="") as file:
                        csv.writer(file).writerows([*([] if rows else [COLUMNS]), *found])
                    rows.append({})


if __name__ == "__main__":
    main()
