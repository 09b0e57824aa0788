"""IMDB, the Large Movie Review Dataset (Maas et al., 2011)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from data_modules.base import DatasetInfo, Split
from data_modules.text.module import HELD_OUT, TextSet
from data_modules.text.rows import Row, read_folders, read_json_lines


class IMDB(TextSet):
    """Large Movie Review Dataset; the metric is accuracy.

    The files are those of its publishers, ``{train,test}/{neg,pos}/*.txt``, or ``{train,test}.jsonl`` with the keys
    ``text`` and ``label``. In both forms a split called ``validation`` is val.
    """

    info = DatasetInfo(
        name="imdb",
        num_classes=2,
        sizes=(22_500, 2_500, 25_000),
        license="none stated; cite Maas et al., 2011",
        source="https://ai.stanford.edu/~amaas/data/sentiment/",
        splits=f"official test; {HELD_OUT}",
        class_names=("negative", "positive"),
        kind="text",
    )
    columns = ("text",)
    folders: ClassVar[Sequence[str]] = ("neg", "pos")
    hub = ("stanfordnlp/imdb", None, {"train": "train", "test": "test"})

    def layout(self) -> str:
        """See :class:`TextSet`."""
        return f"unpack aclImdb of {self.info.source} there, which holds train/pos"

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
    """A part of IMDB with its own validation split. A figure measured on it is not a figure of IMDB."""

    info = replace(
        IMDB.info,
        name="imdb_subset",
        sizes=(5_000, 2_000, 2_000),
        splits="train.jsonl, validation.jsonl and test.jsonl",
    )
