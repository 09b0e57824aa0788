"""WNLI: is a pronoun of the Winograd Schema Challenge (Levesque et al., 2012) replaced rightly? GLUE made it."""

from data_modules.base import DatasetInfo
from data_modules.text_set import HELD_OUT, TextSet


class WNLI(TextSet):
    """Winograd natural language inference; the metric is accuracy.

    Sentences of train and dev overlap with opposite labels, so that a network that fits train is below chance on dev.
    """

    info = DatasetInfo(
        name="wnli",
        num_classes=2,
        sizes=(571, 64, 71),
        license="CC BY 4.0",
        source="https://gluebenchmark.com/tasks",
        splits=f"test is the official dev (the test has no labels); {HELD_OUT}",
        class_names=("not_entailment", "entailment"),
        kind="text",
    )
    columns = ("sentence1", "sentence2")
    hub = ("nyu-mll/glue", "wnli", {"train": "train", "test": "validation"})
