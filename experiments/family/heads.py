"""Separate networks with a head that is fitted as a family's head is: ``python -m experiments.family.heads``.

It reads the finished runs of ``compare.yaml`` with 1,600 updates. It fits the head of each separate network to features
of the training images without augmentation, and writes the test accuracy before and after to
``experiments/results/family_heads.csv``. ``family_compute.csv`` beside it has the FLOPs that all these runs counted.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import torch
import torch.nn.functional as F
from torch import Tensor

from data_modules import ImageFolderData
from lgx.architectures import name_of
from lgx.artifacts.checkpoints import weights_of_run
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.features import frozen_features
from lgx.methods.nested.head import Head, fitted

SIZES = ("12x192", "6x192", "6x128", "3x128")
"""The sizes that the family lists, and the whole network."""
RUNS = Path("runs/family")
RESULTS = Path("experiments/results")


def loss(features: Tensor, classes: Tensor, head: Head) -> Tensor:
    """The cross-entropy of a head."""
    return F.cross_entropy(F.linear(features, **head), classes)


def rows() -> Iterator[dict[str, Any]]:
    """The test accuracy of each finished run, before and after."""
    for run in sorted(path.parent for path in RUNS.glob("*-1600/seed*/summary.json")):
        task, start, size, *_ = run.parent.name.split("-")
        if size not in SIZES:
            continue
        source = load_pretrained(weights_of_run(str(run)))
        data = ImageFolderData(root=f"runs/images/{task}", mean=list(source.mean), std=list(source.std), img_size=64)
        data.setup("fit")
        data.setup("test")
        network = source.model.eval()
        sets = []
        for loader in (data.reference_dataloader(10_000), data.test_dataloader()):
            batches = [data.on_after_batch_transfer(batch, 0) for batch in loader]
            features = torch.cat([frozen_features(network, batch.inputs).double() for batch in batches])
            sets.append((features, torch.cat([batch.targets for batch in batches])))
        train, (features, classes) = sets
        trained = {name: each.detach().double() for name, each in network.head.named_parameters()}
        best, *_ = fitted(trained, partial(loss, *train))
        seed = int(run.name.removeprefix("seed"))
        common = {"task": task, "start": start, "size": name_of(source.require_architecture("source")), "seed": seed}
        for name, head in {"trained": trained, "fitted": best}.items():
            accuracy = float((F.linear(features, **head).argmax(1) == classes).double().mean())
            yield {**common, "head": name, "accuracy": round(accuracy, 4), "n": len(classes)}


def flops() -> Iterator[dict[str, Any]]:
    """The FLOPs of each finished run: of its updates, its start and its finish."""
    for path in sorted(RUNS.glob("*-1600/seed*/summary.json")):
        task, start, size, *_ = path.parent.parent.name.split("-")
        if start != "family" and size not in SIZES:
            continue
        summary = json.loads(path.read_text())
        seed = int(path.parent.name.removeprefix("seed"))
        counted = summary["flops"] + summary["start_flops"]
        yield {"task": task, "start": start, "size": "" if start == "family" else size, "seed": seed, "flops": counted}


if __name__ == "__main__":
    pandas.DataFrame(rows()).to_csv(RESULTS / "family_heads.csv", index=False)
    pandas.DataFrame(flops()).to_csv(RESULTS / "family_compute.csv", index=False)
