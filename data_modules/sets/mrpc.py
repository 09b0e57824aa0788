"""MRPC, the Microsoft Research Paraphrase Corpus (Dolan and Brockett, 2005)."""

from data_modules.base import DatasetInfo, Split
from data_modules.text_files import Row
from data_modules.text_set import HELD_OUT, TextSet


class MRPC(TextSet):
    """Microsoft Research Paraphrase Corpus; the metrics are F1 of the paraphrases and accuracy.

    The files are those of its publishers, ``msr_paraphrase_train.txt`` and ``msr_paraphrase_test.txt``, or GLUE's
    ``train.tsv`` and ``dev.tsv``, whose development set is then the test. Where both are, the publishers' are read.
    """

    info = DatasetInfo(
        name="mrpc",
        num_classes=2,
        sizes=(3_668, 408, 1_725),
        license="Microsoft Shared Source License (non-commercial)",
        source="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
        splits=f"official test (labeled); {HELD_OUT}; on the hub GLUE's validation is val",
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
        files = "msr_paraphrase_train.txt and msr_paraphrase_test.txt"
        return f"place {files} of {self.info.source}, or GLUE's train.tsv and dev.tsv, there"

    def read_files(self, split: Split) -> list[Row] | None:
        """See :class:`TextSet`."""
        if (self.folder / "train.tsv").is_file() and not (self.folder / "msr_paraphrase_test.txt").is_file():
            return super().read_files(split)
        return None if split == "val" else self.read_table(f"msr_paraphrase_{split}.txt")
