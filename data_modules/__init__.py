"""Data modules: importing this package makes every one of them known to the CLI by its short name."""

from data_modules.base import DatasetInfo, ImageDataModule
from data_modules.classification import DTD, Caltech101, FGVCAircraft, Flowers102, Food101, OxfordIIITPet, StanfordCars
from data_modules.folder import ImageFolderData
from data_modules.imagenet import ImageNet
from data_modules.pocket import PocketDecathlon
from data_modules.sharded import ShardedData
from data_modules.small_images import CIFAR10, CIFAR100, FER2013, GTSRB, SVHN, FashionMNIST, Omniglot

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "DTD",
    "FER2013",
    "GTSRB",
    "SVHN",
    "Caltech101",
    "DatasetInfo",
    "FGVCAircraft",
    "FashionMNIST",
    "Flowers102",
    "Food101",
    "ImageDataModule",
    "ImageFolderData",
    "ImageNet",
    "Omniglot",
    "OxfordIIITPet",
    "PocketDecathlon",
    "ShardedData",
    "StanfordCars",
]
