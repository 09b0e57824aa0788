"""The sets of GLUE (Wang et al., 2019, https://gluebenchmark.com) that classify (STS-B is a regression), and IMDB."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from data_modules.base import DatasetInfo, Split
from data_modules.text.module import HELD_OUT, TextSet
from data_modules.text.rows import labeled, library, read_files
from lgx.errors import UserError

__all__ = ["IMDB", "MNLI", "MRPC", "QNLI", "QQP", "RTE", "SST2", "WNLI", "CoLA", "IMDBSubset"]
_GLUE = "https://gluebenchmark.com/tasks"
_DEV = "test is the official dev (the test has no labels)"
_TRAIN_AND_DEV: dict[Split, str] = {"train": "train", "test": "validation"}
_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_info = partial(DatasetInfo, kind="text", source=_GLUE, splits=f"{_DEV}; {HELD_OUT}")


class CoLA(TextSet):
    """Corpus of Linguistic Acceptability (Warstadt et al., 2019); the metric is the Matthews correlation.

    Two forms of the files are read: that of the corpus itself, ``raw/in_domain_train.tsv``, ``raw/in_domain_dev.tsv``
    and ``raw/out_of_domain_dev.tsv`` (the last two together are GLUE's dev), and that of GLUE. Neither has a header.
    """

    info = _info(
        "cola", 2, (7_696, 855, 1_043), "none stated; fair use of published linguistics texts",
        class_names=("unacceptable", "acceptable"),
        splits=f"test is the official dev, in and out of domain (the test has no labels); {HELD_OUT}",
        metric="mcc", source="https://nyu-mll.github.io/CoLA/",
    )  # fmt: skip
    header = ("source", "label", "mark", "sentence")
    layout = "unpack cola_public of {source} there, which holds raw/in_domain_train.tsv"
    hub = ("nyu-mll/glue", "cola", _TRAIN_AND_DEV)

    def files(self, split: Split) -> Sequence[str]:
        """See :class:`TextSet`."""
        if not (self.folder / "raw").is_dir():
            return super().files(split)
        names = {"train": ["in_domain_train"], "val": [], "test": ["in_domain_dev", "out_of_domain_dev"]}
        return [f"raw/{name}.tsv" for name in names[split]]


class MNLI(TextSet):
    """Multi-Genre Natural Language Inference (Williams et al., 2018); accuracy on the genres of training."""

    info = _info(
        "mnli", 3, (353_432, 39_270, 9_815), "OANC and others, see the paper",
        class_names=("entailment", "neutral", "contradiction"),
        splits=f"test is the official dev_matched (the test has no labels); {HELD_OUT}",
    )  # fmt: skip
    columns = _PAIR
    label = "gold_label"
    labels: ClassVar[dict[str, int]] = {"entailment": 0, "neutral": 1, "contradiction": 2}
    hub = ("nyu-mll/glue", "mnli", {"train": "train", "test": "validation_matched"})
    hub_columns = ("premise", "hypothesis")
    layout = "place train.tsv and dev_matched.tsv of {source} there"

    def files(self, split: Split) -> Sequence[str]:
        """See :class:`TextSet`."""
        return {"train": ["train.tsv"], "val": [], "test": ["dev_matched.tsv"]}[split]


class MRPC(TextSet):
    """Microsoft Research Paraphrase Corpus (Dolan and Brockett, 2005); F1 of the paraphrases and accuracy.

    The files are those of its publishers, ``msr_paraphrase_train.txt`` and ``msr_paraphrase_test.txt``, or GLUE's
    ``train.tsv`` and ``dev.tsv``, whose development set is then the test. Where both are, the publishers' are read.
    """

    info = _info(
        "mrpc", 2, (3_668, 408, 1_725), "Microsoft Shared Source License (non-commercial)",
        class_names=("no paraphrase", "paraphrase"), metric="f1",
        splits=f"official test (labeled); {HELD_OUT}; on the hub GLUE's validation is val",
        source="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
    )  # fmt: skip
    columns = ("#1 String", "#2 String")
    label = "Quality"
    hub_columns = _PAIR
    layout = (
        "place msr_paraphrase_train.txt and msr_paraphrase_test.txt of {source}, or GLUE's train.tsv and dev.tsv, there"
    )
    hub = ("nyu-mll/glue", "mrpc", {"train": "train", "val": "validation", "test": "test"})

    def files(self, split: Split) -> Sequence[str]:
        """See :class:`TextSet`."""
        if (self.folder / "train.tsv").is_file() and not (self.folder / "msr_paraphrase_test.txt").is_file():
            return super().files(split)
        return [] if split == "val" else [f"msr_paraphrase_{split}.txt"]


class QNLI(TextSet):
    """Whether a sentence answers a question of SQuAD (Rajpurkar et al., 2016); the metric is accuracy."""

    info = _info("qnli", 2, (94_269, 10_474, 5_463), "CC BY-SA 4.0", class_names=_ENTAILMENT)
    columns = ("question", "sentence")
    labels: ClassVar[dict[str, int]] = {"entailment": 0, "not_entailment": 1}
    hub = ("nyu-mll/glue", "qnli", _TRAIN_AND_DEV)


class QQP(TextSet):
    """Quora Question Pairs; the metrics are F1 of the duplicates and accuracy.

    Some questions have line breaks, which GLUE's files do not mark; such rows are left out, as GLUE's own readers do.
    """

    info = _info(
        "qqp", 2, (327_461, 36_385, 40_430), "Quora's terms of service, not for commercial use",
        class_names=("not_duplicate", "duplicate"), metric="f1",
    )  # fmt: skip
    columns = ("question1", "question2")
    label = "is_duplicate"
    has_broken_rows = True
    hub = ("nyu-mll/glue", "qqp", _TRAIN_AND_DEV)


class RTE(TextSet):
    """Recognizing Textual Entailment, RTE 1, 2, 3 and 5 together; the metric is accuracy."""

    info = _info(
        "rte", 2, (2_241, 249, 277), "none stated", class_names=_ENTAILMENT,
        splits=f"{_DEV}; val.tsv, or else {HELD_OUT}",
    )  # fmt: skip
    columns = _PAIR
    header = ("index", "sentence1", "sentence2", "label")
    labels: ClassVar[dict[str, int]] = {"entailment": 0, "not_entailment": 1}
    hub = ("nyu-mll/glue", "rte", _TRAIN_AND_DEV)


class SST2(TextSet):
    """Stanford Sentiment Treebank with two classes (Socher et al., 2013); the metric is accuracy."""

    info = _info(
        "sst2", 2, (60_614, 6_735, 872), "none stated", class_names=("negative", "positive"),
        splits=f"{_DEV}; {HELD_OUT}, or dev.tsv if test.tsv has labels",
    )  # fmt: skip
    hub = ("nyu-mll/glue", "sst2", _TRAIN_AND_DEV)


class WNLI(TextSet):
    """Whether a pronoun of the Winograd Schema Challenge (Levesque et al., 2012) is replaced rightly; accuracy.

    Sentences of train and dev overlap with opposite labels, so that a network that fits train is below chance on dev.
    """

    info = _info("wnli", 2, (571, 64, 71), "CC BY 4.0", class_names=("not_entailment", "entailment"))
    columns = _PAIR
    hub = ("nyu-mll/glue", "wnli", _TRAIN_AND_DEV)


class IMDB(TextSet):
    """Large Movie Review Dataset; the metric is accuracy.

    The files are those of its publishers, ``{train,test}/{neg,pos}/*.txt``, or ``{train,test}.jsonl`` with the keys
    ``text`` and ``label``. In both forms a split called ``validation`` is val.
    """

    info = _info(
        "imdb", 2, (22_500, 2_500, 25_000), "none stated; cite Maas et al., 2011", class_names=("negative", "positive"),
        splits=f"official test; {HELD_OUT}", source="https://ai.stanford.edu/~amaas/data/sentiment/",
    )  # fmt: skip
    columns = ("text",)
    layout = "unpack aclImdb of {source} there, which holds train/pos"
    hub = ("stanfordnlp/imdb", None, {"train": "train", "test": "test"})

    def files(self, split: Split) -> Sequence[str]:
        """See :class:`TextSet`; the file, or the folder, of a split."""
        name = "validation" if split == "val" else split
        names = [each for each in (name, f"{name}.jsonl") if (self.folder / each).exists()]
        return names[:1] if split == "val" else names[:1] or [f"{name}.jsonl"]

    def read_table(self, paths: Sequence[Path]) -> Any:
        """See :class:`TextSet`."""
        (path,) = paths
        if not path.is_dir():
            return labeled(
                read_files(paths, [*self.columns, self.label]), self.columns, self.label, self.labels, str(path)
            )
        files = [(label, file) for label in ("neg", "pos") for file in sorted((path / label).glob("*.txt"))]
        texts = [file.read_text(encoding="utf-8") for _, file in files]
        if {label for label, _ in files} != {"neg", "pos"}:
            raise UserError(f"{path}: expected folders neg and pos with *.txt files")
        return library().Dataset.from_dict({"text": texts, "label": [int(label == "pos") for label, _ in files]})


class IMDBSubset(IMDB):
    """A part of IMDB with its own validation split. A figure measured on it is not a figure of IMDB."""

    info = replace(
        IMDB.info, name="imdb_subset", sizes=(5_000, 2_000, 2_000),
        splits="train.jsonl, validation.jsonl and test.jsonl",
    )  # fmt: skip
    layout = "place train.jsonl, validation.jsonl and test.jsonl there"
