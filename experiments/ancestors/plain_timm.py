"""A hand-written loop with timm alone beside the recipe of lgx, and the accuracy of what ``lgx export`` wrote.

    python -m experiments.ancestors.plain_timm runs experiments/results/own_images.csv

``runs`` is the folder of the runs of ``experiments/ancestors/recipe.yaml``. Rows are added as they come.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import timm
import torch
from timm.data import create_transform, resolve_model_data_config
from timm.scheduler import CosineLRScheduler
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from lgx.core.provenance import commit
from lgx.core.rows import read_rows, write_rows

LOOP, EXPORTED = "plain_timm", "exported_acc"
_EPOCHS, _BATCH, _RATE = 10, 32, 5e-4


def train(start: Path, folder: Path, seed: int, epochs: int = _EPOCHS) -> tuple[float, int]:
    """Fine-tune a model folder on class folders as a careful user would; accuracy on ``test``, and its images."""
    torch.manual_seed(seed)
    model = timm.create_model(f"local-dir:{start}", pretrained=True)
    known = resolve_model_data_config(model)
    size, normalize = known["input_size"][-1], transforms.Normalize(known["mean"], known["std"])
    crop = [transforms.Resize(size), transforms.RandomCrop(size, padding=size // 8)]
    steps = [*crop, transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    data = ImageFolder(str(folder / "train"), transforms.Compose([*steps, normalize]))
    loader = DataLoader(data, _BATCH, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), _RATE, weight_decay=0.05)
    total = epochs * len(loader)
    schedule = CosineLRScheduler(optimizer, total, warmup_t=total // 10, warmup_prefix=True, t_in_epochs=False)
    loss_of, step = nn.CrossEntropyLoss(label_smoothing=0.1), 0
    for _ in range(epochs):
        model.train()
        for images, labels in loader:
            schedule.step_update(step)
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()
            step += 1
    return accuracy(model, folder / "test")


@torch.no_grad()
def accuracy(model: nn.Module, folder: Path) -> tuple[float, int]:
    """Accuracy of a model of timm on class folders, prepared as its configuration says, and the number of images."""
    data = ImageFolder(str(folder), create_transform(**resolve_model_data_config(model.eval())))
    correct = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in DataLoader(data, 64))
    return correct / len(data), len(data)


def main(runs: Path, results: Path) -> None:
    """Add what is missing: of each run of the recipe what its export gives, and of each set and seed the loop."""
    rows = read_rows(results)
    tested = [row for row in rows if (row.split, row.metric) == ("test", "acc") and row.method != LOOP]
    known = {(row.run, row.metric) for row in rows}
    for row in tested:
        own, out = runs / Path(*Path(row.run).parts[-3:]), runs / "exported" / "-".join(Path(row.run).parts[-2:])
        if (row.run, EXPORTED) not in known and own.is_dir():
            lgx("export", own, "--out", out, "--force")
            value, n = accuracy(
                timm.create_model(f"local-dir:{out}", pretrained=True), runs / "folders" / row.task / "test"
            )
            rows.append(replace(row, metric=EXPORTED, value=value, n=n))
            write_rows(results, rows)
        loop = replace(row, method=LOOP, run=f"{runs.name}/plain_timm/{row.task}/seed{row.seed}", commit=commit())
        if row.method == "recipe" and (loop.run, "acc") not in known:
            start = runs / "plain_timm" / row.task
            classes = len(list((runs / "folders" / row.task / "train").iterdir()))
            words = ["--method=weight_selection", "--arch", row.architecture, f"--head={classes}", "--force"]
            lgx("init", "--source", runs / "deit_tiny_64", *words, "--out", start)
            value, n = train(start, runs / "folders" / row.task, row.seed)
            rows.append(replace(loop, value=value, n=n))
            write_rows(results, rows)
        print(row.task, row.method, row.seed, flush=True)


def lgx(*words: object) -> None:
    """Run a command of lgx."""
    subprocess.run([sys.executable, "-m", "lgx", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
