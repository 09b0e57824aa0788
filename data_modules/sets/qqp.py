"""QQP, Quora's pairs of questions, in the form of GLUE."""

from data_modules.base import DatasetInfo
from data_modules.text_set import HELD_OUT, TextSet


class QQP(TextSet):
    """Quora Question Pairs; the metrics are F1 of the duplicates and accuracy.

    Some questions have line breaks, which GLUE's files do not mark; such rows are left out, as GLUE's own readers do.
    """

    info = DatasetInfo(
        name="qqp",
        num_classes=2,
        sizes=(327_461, 36_385, 40_430),
        license="Quora's terms of service, not for commercial use",
        source="https://gluebenchmark.com/tasks",
        splits=f"test is the official dev (the test has no labels); {HELD_OUT}",
        class_names=("not_duplicate", "duplicate"),
        kind="text",
        metric="f1",
    )
    columns = ("question1", "question2")
    label = "is_duplicate"
    has_broken_rows = True
    hub = ("nyu-mll/glue", "qqp", {"train": "train", "test": "validation"})
