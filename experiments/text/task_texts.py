"""Write texts of four tasks without labels: ``python -m experiments.text.task_texts data runs/task_texts``."""

import csv
import sys
from pathlib import Path

TABLES = {
    "sst2": ("train.tsv", (0,)),
    "rte": ("train.tsv", (1, 2)),
    "cola": ("raw/in_domain_train.tsv", (3,)),
    "mrpc": ("msr_paraphrase_train.txt", (3, 4)),
}
"""File and columns with texts of each task."""
MOST = 1_000
"""Rows of each task, from the first on; the first row may be the header."""


def main() -> None:
    """Write ``train.csv``."""
    data, out = map(Path, sys.argv[1:])
    texts = []
    for task, (name, columns) in TABLES.items():
        lines = (data / task / name).read_text(encoding="utf-8-sig").splitlines()[1 : MOST + 1]
        texts += [line.split("\t")[column] for line in lines for column in columns]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "train.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])


if __name__ == "__main__":
    main()
