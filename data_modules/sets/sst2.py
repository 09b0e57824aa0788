"""SST-2, the Stanford Sentiment Treebank with two classes (Socher et al., 2013), in the form of GLUE."""

from data_modules.base import DatasetInfo
from data_modules.text_set import HELD_OUT, TextSet


class SST2(TextSet):
    """Stanford Sentiment Treebank with two classes; the metric is accuracy."""

    info = DatasetInfo(
        name="sst2",
        num_classes=2,
        sizes=(60_614, 6_735, 872),
        license="none stated",
        source="https://gluebenchmark.com/tasks",
        splits=f"test is the official dev (the test has no labels); {HELD_OUT}, or dev.tsv if test.tsv has labels",
        class_names=("negative", "positive"),
        kind="text",
    )
    hub = ("nyu-mll/glue", "sst2", {"train": "train", "test": "validation"})
