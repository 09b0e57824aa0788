"""Food-101 (Bossard et al., 2014)."""

from torchvision import datasets

from data_modules.base import DatasetInfo
from data_modules.official import TRAIN_AND_TEST, Archive, TorchvisionSet


class Food101(TorchvisionSet):
    """Food-101. Its publishers did not clean the training images, on purpose: some labels are wrong."""

    info = DatasetInfo(
        name="food101",
        num_classes=101,
        sizes=(68_175, 7_575, 25_250),
        license="scientific fair use only",
        source="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
        splits=TRAIN_AND_TEST,
    )
    marker = "food-101"
    archives = (Archive("http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz", "85eeb15f3717b99a5da872d97d918f87"),)
    reader = datasets.Food101
