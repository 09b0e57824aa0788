"""Stanford Cars, also called Cars-196 (Krause et al., 2013)."""

from torchvision import datasets

from data_modules.base import DatasetInfo
from data_modules.official import TRAIN_AND_TEST, TorchvisionSet


class StanfordCars(TorchvisionSet):
    """Stanford Cars. Its publishers no longer offer a download."""

    info = DatasetInfo(
        name="stanford_cars",
        num_classes=196,
        sizes=(7_330, 814, 8_041),
        license="non-commercial research only",
        source="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
        splits=TRAIN_AND_TEST,
    )
    marker = "stanford_cars"
    manual = (
        "the publishers' download is gone: from a copy, place cars_train/, cars_test/, devkit/ and "
        "cars_test_annos_withlabels.mat into {folder}/stanford_cars"
    )
    reader = datasets.StanfordCars
