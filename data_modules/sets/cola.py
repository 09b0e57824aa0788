"""CoLA, the Corpus of Linguistic Acceptability (Warstadt et al., 2019)."""

from data_modules.base import DatasetInfo, Split
from data_modules.text_files import Row
from data_modules.text_set import HELD_OUT, TextSet


class CoLA(TextSet):
    """Corpus of Linguistic Acceptability; the metric is the Matthews correlation.

    Two forms of the files are read: that of the corpus itself, ``raw/in_domain_train.tsv``, ``raw/in_domain_dev.tsv``
    and ``raw/out_of_domain_dev.tsv`` (the last two together are GLUE's dev), and that of GLUE. Neither has a header.
    """

    info = DatasetInfo(
        name="cola",
        num_classes=2,
        sizes=(7_696, 855, 1_043),
        license="none stated; fair use of published linguistics texts",
        source="https://nyu-mll.github.io/CoLA/",
        splits=f"test is the official dev, in and out of domain (the test has no labels); {HELD_OUT}",
        class_names=("unacceptable", "acceptable"),
        kind="text",
        metric="mcc",
    )
    header = ("source", "label", "mark", "sentence")
    hub = ("nyu-mll/glue", "cola", {"train": "train", "test": "validation"})

    def layout(self) -> str:
        """See :class:`TextSet`."""
        return f"unpack cola_public of {self.info.source} there, which holds raw/in_domain_train.tsv"

    def read_files(self, split: Split) -> list[Row] | None:
        """See :class:`TextSet`."""
        if not (self.folder / "raw").is_dir():
            return super().read_files(split)
        if split == "val":
            return None
        names = ("in_domain_train",) if split == "train" else ("in_domain_dev", "out_of_domain_dev")
        return [row for name in names for row in self.read_table(f"raw/{name}.tsv")]
