"""Tiny text sets and a vocabulary in their official formats."""

import json
from pathlib import Path

END = "<|endoftext|>"
MERGES = ["t h", "th e", "Ġ the"]


SIZE = 256 + 3 + 1


def write_vocabulary(folder: Path, names=("encoder.json", "vocab.bpe"), size: int = SIZE) -> Path:
    """All bytes, some merges, unused tokens up to ``size``, end of text."""
    from tokenizers.pre_tokenizers import ByteLevel

    folder.mkdir(exist_ok=True)
    unused = [f"unused{k}" for k in range(size - SIZE)]
    tokens = [*sorted(ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES), *unused, END]
    (folder / names[0]).write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / names[1]).write_text("\n".join(["#version: 0.2", *MERGES, ""]), encoding="utf-8")
    return folder


def lines(*rows: str) -> str:
    return "".join(f"{row}\n" for row in rows)


def sentences(n: int) -> list[str]:
    return [f"the {'long ' * (k % 7)}sentence {k}" for k in range(n)]


def write_sets(root: Path) -> Path:
    """Every set in its official format: 20 training texts, fewer of the others."""
    tables: dict[str, str] = {}
    cola = lambda n: lines(*(f"gj04\t{k % 2}\t{'*' * (k % 2)}\t{s}" for k, s in enumerate(sentences(n))))  # noqa: E731
    for name, n in (("in_domain_train", 20), ("in_domain_dev", 4), ("out_of_domain_dev", 2)):
        tables[f"cola/raw/{name}.tsv"] = cola(n)
    for split, n in (("train", 20), ("test", 6)):
        rows = [f'{k % 2}\t{k}\t{k + 1}\t"{s}\tthe other' for k, s in enumerate(sentences(n))]
        tables[f"mrpc/msr_paraphrase_{split}.txt"] = "\ufeff" + lines(
            "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows
        ).replace("\n", "\r\n")
    rte = [f"{k}\t{s}\thypothesis\t{('not_' * (k % 2))}entailment" for k, s in enumerate(sentences(20))]
    tables["rte/train.tsv"] = lines("index\tsentence1\tsentence2\tlabel", *rte)
    tables["rte/dev.tsv"] = lines("index\tsentence1\tsentence2\tlabel", *rte[:5])
    tables["rte/test.tsv"] = lines("index\tsentence1\tsentence2", "0\ta\tb")
    nli = ("entailment", "neutral", "contradiction")
    mnli = [f'{k}\t{s} "\thypothesis\t{nli[k % 3]}\t{nli[k % 3]}' for k, s in enumerate(sentences(30))]
    tables["mnli/train.tsv"] = lines("index\tsentence1\tsentence2\tlabel1\tgold_label", *mnli)
    tables["mnli/dev_matched.tsv"] = lines(
        "index\tsentence1\tsentence2\tgold_label", *(m.rpartition("\t")[0] for m in mnli[:6])
    )
    qnli = [f"{k}\twhat?\t{s}\t{('not_' * (k % 2))}entailment" for k, s in enumerate(sentences(20))]
    qqp = [f'{k}\t1\t2\t"""{s}"""\twhich?\t{k % 2}' for k, s in enumerate(sentences(20))]
    wnli = [f"{k}\t{s}\tit did\t{k % 2}" for k, s in enumerate(sentences(20))]
    for name, header, rows in (
        ("qnli", "index\tquestion\tsentence\tlabel", qnli),
        (
            "qqp",
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
            [*qqp[:9], "9\t1\t2\ta question", "of two lines\tb\t1", *qqp[9:]],
        ),
        ("wnli", "index\tsentence1\tsentence2\tlabel", wnli),
    ):
        tables[f"{name}/train.tsv"], tables[f"{name}/dev.tsv"] = lines(header, *rows), lines(header, *rows[:6])
        tables[f"{name}/test.tsv"] = lines(header.rpartition("\t")[0], rows[0].rpartition("\t")[0])
    sst2 = [f"{s} \t{k % 2}" for k, s in enumerate(sentences(20))]
    tables["sst2/train.tsv"] = lines("sentence\tlabel", *sst2)
    tables["sst2/dev.tsv"] = lines("sentence\tlabel", *sst2[:6])
    tables["sst2/test.tsv"] = lines("index\tsentence", "0\tno label")
    for split, n in (("train", 10), ("test", 3)):
        for label in ("neg", "pos"):
            for k, sentence in enumerate(sentences(n)):
                tables[f"imdb/{split}/{label}/{k}_1.txt"] = sentence
    for split, n in (("train", 20), ("validation", 4), ("test", 6)):
        rows = [json.dumps({"file": f"{k}", "label": k % 2, "text": s}) for k, s in enumerate(sentences(n))]
        tables[f"imdb_subset/{split}.jsonl"] = lines(*rows)
    for name, text in tables.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root
