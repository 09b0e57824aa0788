"""Networks of a family whose layers differ in their number of neurons, beside networks of equal layers.

    python -m experiments.family.unequal runs/family/family-dtd10-14/seed0 >> experiments/results/family_unequal.csv

Nothing is trained. All networks of a size have the same FLOPs in their layers: `equal` has half of the neurons in each
layer, `fewer_layers` all neurons in two thirds of the layers. For `unequal`, a quarter of a layer's neurons moves to
another layer, as long as the loss on the validation images falls: the best of 20 random moves, at most six times.
"""

import csv
import random
import sys
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor
from torch.nn import functional as F

import data_modules
import lgx

SIZES = ((6, 192), (9, 192), (12, 192), (6, 128), (12, 128))
COLUMNS = ("task", "seed", "layout", "depth", "width", "ratios", "val_accuracy", "test_accuracy")


@torch.no_grad()
def scores(model: Any, ratios: Sequence[int], images: Tensor, labels: Tensor) -> tuple[float, float]:
    """Accuracy and loss of a network whose layers have their first neurons only; the state of the model stays."""
    whole = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for block, ratio in zip(model.blocks, ratios, strict=True):
        block.mlp.fc2.weight[:, ratio * model.embed_dim :] = 0
    logits = torch.cat([model(part) for part in images.split(120)])
    model.load_state_dict(whole)
    return (logits.argmax(1) == labels).float().mean().item(), F.cross_entropy(logits, labels).item()


def moved(model: Any, ratios: list[int], images: Tensor, labels: Tensor, draws: random.Random) -> list[int]:
    """Move quarters of neurons from layer to layer while the loss falls."""
    best = scores(model, ratios, images, labels)[1]
    for _ in range(6):
        places = permutations(range(len(ratios)), 2)
        moves = [[r - (i == a) + (i == b) for i, r in enumerate(ratios)] for a, b in places]
        allowed = [move for move in moves if min(move) >= 1 and max(move) <= 4]
        tried = draws.sample(allowed, min(20, len(allowed)))
        loss, move = min((scores(model, move, images, labels)[1], move) for move in tried)
        if loss >= best:
            break
        best, ratios = loss, move
    return ratios


def main(run: Path) -> None:
    """Print the lines of one run."""
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    options = config["data"]["init_args"] | {"seed": config["seed_everything"], "num_workers": 0}
    data = getattr(data_modules, config["data"]["class_path"].rpartition(".")[2])(**options)
    data.prepare_data()
    splits = {}
    for stage, split in (("fit", "val"), ("test", "test")):
        data.setup(stage)
        batches = [data.on_after_batch_transfer(batch, 0) for batch in getattr(data, f"{split}_dataloader")()]
        splits[split] = torch.cat([b.inputs for b in batches]), torch.cat([b.targets for b in batches])
    family, table = lgx.load_family(run), csv.writer(sys.stdout)
    for depth, width in SIZES:
        model = family[f"depth={depth},embed_dim={width}"]
        equal, fewer = [2] * depth, family[f"depth={2 * depth // 3},embed_dim={width}"]
        unequal = moved(model, equal, *splits["val"], random.Random(0))
        all_neurons = [4] * (2 * depth // 3)
        for layout, network, ratios in (
            ("equal", model, equal), ("unequal", model, unequal), ("fewer_layers", fewer, all_neurons),
        ):  # fmt: skip
            accuracies = [scores(network, ratios, *splits[split])[0] for split in ("val", "test")]
            table.writerow(
                [data.task.name, options["seed"], layout, depth, width, " ".join(map(str, ratios)), *accuracies]
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
