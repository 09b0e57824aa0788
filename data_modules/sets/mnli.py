"""MNLI, the Multi-Genre Natural Language Inference corpus (Williams et al., 2018), in the form of GLUE."""

from typing import ClassVar

from data_modules.base import DatasetInfo, Split
from data_modules.text_files import Row
from data_modules.text_set import HELD_OUT, TextSet


class MNLI(TextSet):
    """Multi-Genre Natural Language Inference; the metric is accuracy on texts of the genres of training (matched)."""

    info = DatasetInfo(
        name="mnli",
        num_classes=3,
        sizes=(353_432, 39_270, 9_815),
        license="OANC and others, see the paper",
        source="https://gluebenchmark.com/tasks",
        splits=f"test is the official dev_matched (the test has no labels); {HELD_OUT}",
        class_names=("entailment", "neutral", "contradiction"),
        kind="text",
    )
    columns = ("sentence1", "sentence2")
    label = "gold_label"
    labels: ClassVar[dict[str, int]] = {"entailment": 0, "neutral": 1, "contradiction": 2}
    hub = ("nyu-mll/glue", "mnli", {"train": "train", "test": "validation_matched"})
    hub_columns = ("premise", "hypothesis")

    def layout(self) -> str:
        """See :class:`TextSet`."""
        return f"place train.tsv and dev_matched.tsv of {self.info.source} there"

    def read_files(self, split: Split) -> list[Row] | None:
        """See :class:`TextSet`."""
        return None if split == "val" else self.read_table("train.tsv" if split == "train" else "dev_matched.tsv")
