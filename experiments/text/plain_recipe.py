"""An encoder fine-tuned by ``lgx fit`` and by plain transformers with the same recipe, on SST-2 and RTE.

    python -m experiments.text.plain_recipe minilm data

``minilm`` is a folder of transformers with an encoder and its tokenizer, ``data`` has ``sst2`` and ``rte``. A row is
added to ``experiments/results/text_recipe.csv`` as each training ends; the same command continues. Both read the same
tables, with the same rate, schedule, batch size and length; order, dropout and the new head are drawn by each itself.
"""

import csv
import random
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_cosine_schedule_with_warmup

ROWS = Path("experiments/results/text_recipe.csv")
COLUMNS = ("training", "task", "seed", "steps", "accuracy", "n")
TASKS = {"sst2": (("sentence",), 2_000, 64), "rte": (("sentence1", "sentence2"), 2_000, 128)}
"""Columns with texts, number of training rows, and length in tokens of each task."""
RATE, BATCH, EPOCHS, WARMUP, SEEDS = 1e-4, 32, 1, 0.1, (0, 1)


def write_tables(data: Path, out: Path) -> None:
    """Write ``out/<task>/{train,test}.csv`` from the official files."""
    for task, (columns, count, _) in TASKS.items():
        (out / task).mkdir(parents=True, exist_ok=True)
        for split, name in (("train", "train.tsv"), ("test", "dev.tsv")):
            path = data / task / name
            lines = (path if path.is_file() else data / task / "test.tsv").read_text(encoding="utf-8").splitlines()
            header = lines[0].split("\t") if columns[0] in lines[0] else ["index", *columns, "label"]
            rows = [dict(zip(header, line.split("\t"), strict=True)) for line in lines[columns[0] in lines[0] :]]
            random.Random(0).shuffle(rows)
            kept = rows[:count] if split == "train" else rows
            with (out / task / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(
                    [[*columns, "label"], *([row[c] for c in (*columns, "label")] for row in kept)]
                )


def plain(source: str, folder: Path, task: str, seed: int) -> tuple[int, float, int]:
    """Steps, test accuracy and number of test texts of plain transformers."""
    columns, _, length = TASKS[task]
    rows = {s: list(csv.DictReader((folder / f"{s}.csv").open(encoding="utf-8"))) for s in ("train", "test")}
    names = sorted({row["label"] for row in rows["train"]})
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=len(names)).train()
    decayed = [p for name, p in model.named_parameters() if p.ndim > 1 and "embeddings" not in name]
    others = [p for p in model.parameters() if all(p is not each for each in decayed)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    steps = EPOCHS * (len(rows["train"]) // BATCH)
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    schedule = get_cosine_schedule_with_warmup(optimizer, round(WARMUP * steps), steps)

    def logits(batch: list[dict[str, str]]) -> torch.Tensor:
        texts = [[row[column] for row in batch] for column in columns]
        inputs = tokenizer(*texts, truncation=True, max_length=length, padding=True, return_tensors="pt")
        return model(**inputs).logits  # type: ignore[no-any-return]

    for _ in range(EPOCHS):
        random.Random(seed).shuffle(rows["train"])
        for first in range(0, len(rows["train"]) - BATCH + 1, BATCH):
            batch = rows["train"][first : first + BATCH]
            labels = torch.tensor([names.index(row["label"]) for row in batch])
            nn.functional.cross_entropy(logits(batch), labels).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    correct = 0
    with torch.no_grad():
        for first in range(0, len(rows["test"]), BATCH):
            batch = rows["test"][first : first + BATCH]
            answers = logits(batch).argmax(1).tolist()
            correct += sum(names[answer] == row["label"] for answer, row in zip(answers, batch, strict=True))
    return steps, correct / len(rows["test"]), len(rows["test"])


def by_lgx(source: str, folder: Path, task: str, seed: int) -> tuple[int, float, int]:
    """The same of ``lgx fit``."""
    columns, _, length = TASKS[task]
    options = {
        "model": "Finetune", "model.initializer": "Pretrained", "model.initializer.source": source, "model.head": "new",
        "model.dropout": 0.1, "model.arch": f"hf:{source}", "model.optimizer": "torch.optim.AdamW",
        "model.optimizer.lr": RATE, "model.optimizer.weight_decay": 0.01,
        "model.scheduler": "lgx.components.optim.WarmupCosine", "model.scheduler.warmup": WARMUP, "data": "TextTable",
        "data.root": folder, "data.text": ",".join(columns), "data.tokenizer": source, "data.max_len": length,
        "data.batch_size": BATCH, "data.val_fraction": 0, "trainer.max_epochs": EPOCHS,
        "trainer.gradient_clip_val": 1.0,
        "experiment": "recipe", "name": task, "seed_everything": seed, "test_end": True, "overwrite": True,
    }  # fmt: skip
    command = ["lgx", "fit", *(f"--{key}={value}" for key, value in options.items())]
    subprocess.run(command, check=True)
    rows = csv.DictReader(Path(f"runs/recipe/{task}/seed{seed}/results.csv").open(encoding="utf-8"))
    row = next(row for row in rows if (row["split"], row["metric"]) == ("test", "acc"))
    size = sum(1 for _ in csv.reader((folder / "train.csv").open(encoding="utf-8"))) - 1
    return EPOCHS * (size // BATCH), float(row["value"]), int(row["n"])


def main(source: str, data: str) -> None:
    """Measure what has no row yet."""
    tables = Path("runs/recipe_tables")
    write_tables(Path(data), tables)
    done = list(csv.DictReader(ROWS.open(encoding="utf-8"))) if ROWS.is_file() else []
    for seed in SEEDS:
        for task in TASKS:
            for name, train in (("lgx", by_lgx), ("transformers", plain)):
                if any((row["training"], row["task"], row["seed"]) == (name, task, str(seed)) for row in done):
                    continue
                row = name, task, seed, *train(source, tables / task, task, seed)
                with ROWS.open("a", encoding="utf-8", newline="") as file:
                    csv.writer(file).writerows([*([] if file.tell() else [COLUMNS]), row])


if __name__ == "__main__":
    main(*sys.argv[1:])
