"""The text sets of TAL's Table 6, and SST-2: from the publishers' files, GLUE's, or the Hugging Face hub.

Where a set's test has no public labels, the official development set is the test, as in the tables of papers;
validation is then held out of the training texts. Wang et al., "GLUE: A Multi-Task Benchmark and Analysis Platform for
Natural Language Understanding", 2019.
"""

from collections.abc import Sequence
from typing import ClassVar

from data_modules.base import DatasetInfo, Split
from data_modules.text import TextDataModule
from data_modules.text_files import Row, has_column, read_folders, read_hub, read_json_lines, read_lines, read_table
from lgx.errors import UserError

_HELD = "a stratified tenth of the official train held out as val"


class TextSet(TextDataModule):
    """A set of tab-separated files, ``root/<name>/{train,dev,test}.tsv``, as GLUE gives them out.

    The test is ``test.tsv`` where that has labels, else ``dev.tsv``. Validation is ``val.tsv`` if there is one, else
    ``dev.tsv`` where that is not the test, else held out of ``train.tsv``.

    Attributes:
        columns: Columns with texts.
        label: Column with labels.
        header: All columns, for files whose first line is a row.
        labels: What stands in the column -> class index.
        hub: Name and configuration on the Hugging Face hub, and its name of each split; a set without a ``val`` there
            has one held out.
        hub_columns: Columns with texts there, where they are called otherwise; labels are class indices in ``label``.
    """

    columns: ClassVar[tuple[str, ...]] = ("sentence",)
    label: ClassVar[str] = "label"
    header: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[dict[str, int]] = {"0": 0, "1": 1}
    hub: ClassVar[tuple[str, str | None, dict[Split, str]]]
    hub_columns: ClassVar[tuple[str, ...]] = ()

    def prepare_data(self) -> None:
        """Download what is on the hub, on one process only."""
        if self.source == "hub":
            for split in self.hub[2]:
                self.read(split)

    def read(self, split: Split) -> list[Row] | None:
        """See :class:`~data_modules.text.TextDataModule`."""
        if self.source == "hub":
            name, config, splits = self.hub
            if split not in splits:
                return None
            columns = self.hub_columns or self.columns
            return read_hub(name, config, splits[split], columns, "label", self.num_classes)
        if not self.folder.is_dir():
            raise UserError(f"{self.info.name}: nothing at {self.folder}; {self.layout()}, or set data.source to hub")
        return self.read_files(split)

    def layout(self) -> str:
        """What to lay where, in words."""
        return f"place train.tsv and dev.tsv of {self.info.source} there"

    def read_files(self, split: Split) -> list[Row] | None:
        """Read a split from the files in :attr:`folder`; None for ``val`` where there is no file for it."""
        tested = has_column(self.folder / "test.tsv", self.label)
        if split == "train":
            return self.read_table("train.tsv")
        if split == "test":
            return self.read_table("test.tsv" if tested else "dev.tsv")
        if (self.folder / "val.tsv").is_file():
            return self.read_table("val.tsv")
        return self.read_table("dev.tsv") if tested else None

    def read_table(self, name: str) -> list[Row]:
        """Read one file, whose first line may be missing where :attr:`header` is known."""
        path = self.folder / name
        header = None
        if self.header:
            fields = read_lines(path, 1)[0].split("\t")
            is_row = len(fields) == len(self.header) and fields[self.header.index(self.label)] in self.labels
            header = self.header if is_row else None
        return read_table(path, self.columns, self.label, self.labels, header)


class CoLA(TextSet):
    """Corpus of Linguistic Acceptability; Matthews correlation.

    Both forms of the files are read: the corpus's own, ``raw/in_domain_train.tsv``, ``raw/in_domain_dev.tsv`` and
    ``raw/out_of_domain_dev.tsv`` (the two together are GLUE's dev), and GLUE's. Neither has a line of names.
    """

    info = DatasetInfo(
        name="cola",
        num_classes=2,
        sizes=(7_696, 855, 1_043),
        license="none stated; fair use of published linguistics texts",
        source="https://nyu-mll.github.io/CoLA/",
        splits=f"test is the official dev, in and out of domain (the test has no labels); {_HELD}",
        class_names=("unacceptable", "acceptable"),
        kind="text",
        metric="mcc",
    )
    header = ("source", "label", "mark", "sentence")
    hub = ("nyu-mll/glue", "cola", {"train": "train", "test": "validation"})

    def layout(self) -> str:
        """See :class:`TextSet`."""
        return f"unpack cola_public of {self.info.source} there, so that raw/in_domain_train.tsv is in it"

    def read_files(self, split: Split) -> list[Row] | None:
        """See :class:`TextSet`."""
        if not (self.folder / "raw").is_dir():
            return super().read_files(split)
        if split == "val":
            return None
        names = ("in_domain_train",) if split == "train" else ("in_domain_dev", "out_of_domain_dev")
        return [row for name in names for row in self.read_table(f"raw/{name}.tsv")]


class MRPC(TextSet):
    """Microsoft Research Paraphrase Corpus; F1 of the paraphrases, beside accuracy.

    ``msr_paraphrase_train.txt`` and ``msr_paraphrase_test.txt``, as its publishers give them out.
    """

    info = DatasetInfo(
        name="mrpc",
        num_classes=2,
        sizes=(3_668, 408, 1_725),
        license="Microsoft Shared Source License (non-commercial)",
        source="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
        splits=f"official test (labeled); {_HELD}; on the hub GLUE's validation is val",
        class_names=("no paraphrase", "paraphrase"),
        kind="text",
        metric="f1",
    )
    columns = ("#1 String", "#2 String")
    label = "Quality"
    hub_columns = ("sentence1", "sentence2")
    hub = ("nyu-mll/glue", "mrpc", {"train": "train", "val": "validation", "test": "test"})

    def layout(self) -> str:
        """See :class:`TextSet`."""
        return f"place msr_paraphrase_train.txt and msr_paraphrase_test.txt of {self.info.source} there"

    def read_files(self, split: Split) -> list[Row] | None:
        """See :class:`TextSet`."""
        return None if split == "val" else self.read_table(f"msr_paraphrase_{split}.txt")


class RTE(TextSet):
    """Recognizing Textual Entailment (RTE 1, 2, 3 and 5, as GLUE joined them); accuracy."""

    info = DatasetInfo(
        name="rte",
        num_classes=2,
        sizes=(2_241, 249, 277),
        license="none stated",
        source="https://gluebenchmark.com/tasks",
        splits=f"test is the official dev (the test has no labels); val.tsv, or else {_HELD}",
        class_names=("entailment", "not_entailment"),
        kind="text",
    )
    columns = ("sentence1", "sentence2")
    header = ("index", "sentence1", "sentence2", "label")
    labels: ClassVar[dict[str, int]] = {"entailment": 0, "not_entailment": 1}
    hub = ("nyu-mll/glue", "rte", {"train": "train", "test": "validation"})


class SST2(TextSet):
    """Stanford Sentiment Treebank, two classes, as GLUE gives it out; accuracy."""

    info = DatasetInfo(
        name="sst2",
        num_classes=2,
        sizes=(60_614, 6_735, 872),
        license="none stated",
        source="https://gluebenchmark.com/tasks",
        splits=f"test is the official dev (the test has no labels); {_HELD}, or dev.tsv where test.tsv has labels",
        class_names=("negative", "positive"),
        kind="text",
    )
    hub = ("nyu-mll/glue", "sst2", {"train": "train", "test": "validation"})


class IMDB(TextSet):
    """Large Movie Review Dataset (Maas et al., 2011); accuracy.

    ``{train,test}/{neg,pos}/*.txt``, as its publishers give them out, or ``{train,test}.jsonl`` with ``text`` and
    ``label``; a split called ``validation``, in either form, is val.
    """

    info = DatasetInfo(
        name="imdb",
        num_classes=2,
        sizes=(22_500, 2_500, 25_000),
        license="none stated; cite Maas et al., 2011",
        source="https://ai.stanford.edu/~amaas/data/sentiment/",
        splits=f"official test; {_HELD}",
        class_names=("negative", "positive"),
        kind="text",
    )
    columns = ("text",)
    folders: ClassVar[Sequence[str]] = ("neg", "pos")
    hub = ("stanfordnlp/imdb", None, {"train": "train", "test": "test"})

    def layout(self) -> str:
        """See :class:`TextSet`."""
        return f"unpack aclImdb of {self.info.source} there, so that train/pos is in it"

    def read_files(self, split: Split) -> list[Row] | None:
        """See :class:`TextSet`."""
        name = "validation" if split == "val" else split
        lines, folder = self.folder / f"{name}.jsonl", self.folder / name
        if split == "val" and not (lines.is_file() or folder.is_dir()):
            return None
        if folder.is_dir():
            return read_folders(folder, self.folders)
        return read_json_lines(lines, "text", "label", self.num_classes)


class IMDBSubset(IMDB):
    """A part of IMDB with its own validation split; what is measured on it is no IMDB figure."""

    info = DatasetInfo(
        name="imdb_subset",
        num_classes=2,
        sizes=(5_000, 2_000, 2_000),
        license=IMDB.info.license,
        source=IMDB.info.source,
        splits="train.jsonl, validation.jsonl and test.jsonl",
        class_names=IMDB.info.class_names,
        kind="text",
    )
