"""``TextSet``: the base of the text sets that are read from their publishers' files, GLUE's, or the hub.

If the labels of the official test are not public, the official development set is the test, as in the tables of papers;
validation examples are then held out of the training texts. GLUE: Wang et al., "A Multi-Task Benchmark and Analysis
Platform for Natural Language Understanding", 2019.
"""

from typing import ClassVar

from data_modules.base import Split
from data_modules.files.tables import read_lines
from data_modules.text.module import TextDataModule
from data_modules.text.rows import Row, has_column, read_hub, read_table
from lgx.errors import UserError

HELD_OUT = "a stratified tenth of the official train held out as val"


class TextSet(TextDataModule):
    """A set of tab-separated files in the form of GLUE, ``root/<name>/{train,dev,test}.tsv``.

    The test is ``test.tsv`` if that has labels, else ``dev.tsv``. Validation is ``val.tsv`` if there is one, else
    ``dev.tsv`` if that is not the test, else it is held out of ``train.tsv``. A subclass sets ``info`` and ``hub``;
    a set in another form overrides :meth:`read_files` and :meth:`layout`.

    Attributes:
        columns: Columns with texts.
        label: Column with labels.
        header: All columns, for files without a header line.
        labels: Value of the label column -> class index.
        has_broken_rows: Whether the files have lines that are no whole rows, which are left out.
        hub: Name and configuration on the Hugging Face hub, and the name of each split there. If ``val`` is missing,
            it is held out of train.
        hub_columns: Columns with texts on the hub, if their names differ; the column ``label`` has class indices.
    """

    columns: ClassVar[tuple[str, ...]] = ("sentence",)
    label: ClassVar[str] = "label"
    header: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[dict[str, int]] = {"0": 0, "1": 1}
    has_broken_rows: ClassVar[bool] = False
    hub: ClassVar[tuple[str, str | None, dict[Split, str]]]
    hub_columns: ClassVar[tuple[str, ...]] = ()

    def prepare_data(self) -> None:
        """Download the set if it is read from the hub. Lightning calls this on one process only."""
        if self.source == "hub":
            for split in self.hub[2]:
                self.read(split)

    def read(self, split: Split) -> list[Row] | None:
        """See :class:`~data_modules.text.module.TextDataModule`."""
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
        """Which files a user has to place in :attr:`folder`, for messages."""
        return f"place train.tsv and dev.tsv of {self.info.source} there"

    def read_files(self, split: Split) -> list[Row] | None:
        """Read a split from the files in :attr:`folder`; None for ``val`` if no file has it."""
        tested = has_column(self.folder / "test.tsv", self.label)
        if split == "train":
            return self.read_table("train.tsv")
        if split == "test":
            return self.read_table("test.tsv" if tested else "dev.tsv")
        if (self.folder / "val.tsv").is_file():
            return self.read_table("val.tsv")
        return self.read_table("dev.tsv") if tested else None

    def read_table(self, name: str) -> list[Row]:
        """Read one file; its header line may be missing if :attr:`header` is set."""
        path = self.folder / name
        header = None
        if self.header:
            fields = read_lines(path, 1)[0].split("\t")
            is_row = len(fields) == len(self.header) and fields[self.header.index(self.label)] in self.labels
            header = self.header if is_row else None
        return read_table(path, self.columns, self.label, self.labels, header, self.has_broken_rows)
