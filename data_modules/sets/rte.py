"""RTE, Recognizing Textual Entailment: RTE 1, 2, 3 and 5, as GLUE joined them."""

from typing import ClassVar

from data_modules.base import DatasetInfo
from data_modules.text_set import HELD_OUT, TextSet


class RTE(TextSet):
    """Recognizing Textual Entailment; the metric is accuracy."""

    info = DatasetInfo(
        name="rte",
        num_classes=2,
        sizes=(2_241, 249, 277),
        license="none stated",
        source="https://gluebenchmark.com/tasks",
        splits=f"test is the official dev (the test has no labels); val.tsv, or else {HELD_OUT}",
        class_names=("entailment", "not_entailment"),
        kind="text",
    )
    columns = ("sentence1", "sentence2")
    header = ("index", "sentence1", "sentence2", "label")
    labels: ClassVar[dict[str, int]] = {"entailment": 0, "not_entailment": 1}
    hub = ("nyu-mll/glue", "rte", {"train": "train", "test": "validation"})
