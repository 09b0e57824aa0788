"""QNLI: whether a sentence answers a question of SQuAD (Rajpurkar et al., 2016), as GLUE made it."""

from typing import ClassVar

from data_modules.base import DatasetInfo
from data_modules.text_set import HELD_OUT, TextSet


class QNLI(TextSet):
    """Question-answering natural language inference; the metric is accuracy."""

    info = DatasetInfo(
        name="qnli",
        num_classes=2,
        sizes=(94_269, 10_474, 5_463),
        license="CC BY-SA 4.0",
        source="https://gluebenchmark.com/tasks",
        splits=f"test is the official dev (the test has no labels); {HELD_OUT}",
        class_names=("entailment", "not_entailment"),
        kind="text",
    )
    columns = ("question", "sentence")
    labels: ClassVar[dict[str, int]] = {"entailment": 0, "not_entailment": 1}
    hub = ("nyu-mll/glue", "qnli", {"train": "train", "test": "validation"})
