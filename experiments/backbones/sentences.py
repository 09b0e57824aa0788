"""Write sentences without labels, as a user has them: ``python -m experiments.backbones.sentences FOLDER``.

FOLDER has ``sst2/{train,test}.tsv`` of GLUE, and ``imdb_subset/{train,validation}.jsonl``. It
writes ``runs/sentences/train.txt`` with 10,000 sentences, half of each set, and ``val.txt`` with 1,600.
"""

import random
import re
import sys
from pathlib import Path

import pandas

MOST = {"train": 5_000, "val": 800}
"""Sentences of each set."""
FILES = {"train": ("train.tsv", "train.jsonl"), "val": ("test.tsv", "validation.jsonl")}


def main(source: Path) -> None:
    """Write both files."""
    generator = random.Random(0)
    out = Path("runs/sentences")
    out.mkdir(parents=True, exist_ok=True)
    for split, (phrases, reviews) in FILES.items():
        rows = pandas.read_csv(source / "sst2" / phrases, sep="\t", quoting=3)
        texts = pandas.read_json(source / "imdb_subset" / reviews, lines=True)["text"].str.replace("<br />", " ")
        sets = [rows["sentence"].tolist(), [part for text in texts for part in re.split(r"(?<=[.!?])\s+", text)]]
        chosen = []
        for lines in sets:
            fitting = sorted({line.strip() for line in lines if 20 <= len(line.strip()) <= 250})
            chosen += generator.sample(fitting, MOST[split])
        generator.shuffle(chosen)
        (out / f"{split}.txt").write_text("\n".join(chosen) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
