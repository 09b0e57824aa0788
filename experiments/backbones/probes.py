"""k-NN accuracy of encoders of images on labeled sets: ``python -m experiments.backbones.probes``.

It reads the runs of ``compare/images.yaml`` and the sets of the mini-Decathlon below ``data/mini``, and writes
``experiments/results/backbones_knn.csv``. Training images vote for test images, on features of the encoder's own width.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas
import torch
from torch import Tensor, nn

from data_modules import ShardedData
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.commands.api import load_family
from lgx.components.features import Probe, frozen_features
from lgx.core.batch import Batch

RUNS, ANCESTOR = Path("runs/backbones_images"), "runs/deit_tiny_64"
SETS = ("flowers12", "dtd10", "gtsrb")
SIZES = {
    "11x192": "depth=11", "6x192": "depth=6", "6x128": "depth=6,embed_dim=128,num_heads=2",
    "3x128": "depth=3,embed_dim=128,num_heads=2,mlp_ratio=2",
}  # fmt: skip


def features(network: nn.Module, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Features (N, T) and classes (N,)."""
    parts = [(frozen_features(network, batch.inputs), batch.targets) for batch in batches]
    vectors, classes = zip(*parts, strict=True)
    return torch.cat(vectors), torch.cat(classes)


def accuracies(network: nn.Module, source: PretrainedNetwork) -> Iterable[dict[str, Any]]:
    """The accuracy on each set."""
    for name in SETS:
        data = ShardedData(root="data/mini", name=name, img_size=64, mean=list(source.mean), std=list(source.std))
        data.setup("fit")
        data.setup("test")
        train = features(network, data.reference_dataloader(100_000))
        accuracy = Probe("knn").accuracy(*train, *features(network, data.test_dataloader()))
        yield {"task": name, "knn_acc": round(accuracy, 4), "n": len(data.examples("test"))}


def main() -> None:
    """Measure every run."""
    source = load_pretrained(ANCESTOR)
    common = {"training": "ancestor", "size": ""}
    rows = [common | row for row in accuracies(source.model.eval(), source)]
    for run in sorted(RUNS.glob("*/seed0")):
        training, _, only = run.parent.name.partition("-")
        family = load_family(str(run))
        for size in (only,) if only else SIZES:
            network = family[SIZES[size]].eval()
            rows += [{"training": training, "size": size} | row for row in accuracies(network, source)]
    pandas.DataFrame(rows).to_csv("experiments/results/backbones_knn.csv", index=False)


if __name__ == "__main__":
    main()
