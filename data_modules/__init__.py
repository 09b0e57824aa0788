"""Data modules: importing this package makes every one of them known to the CLI by its short name."""

from data_modules.base import DatasetInfo, TaskDataModule
from data_modules.classification import DTD, Caltech101, FGVCAircraft, Flowers102, Food101, OxfordIIITPet, StanfordCars
from data_modules.decathlon import Decathlon
from data_modules.folder import ImageFolderData
from data_modules.glue import IMDB, MRPC, RTE, SST2, CoLA, IMDBSubset
from data_modules.ham10000 import HAM10000
from data_modules.image_module import ImageDataModule
from data_modules.imagenet import ImageNet
from data_modules.inaturalist import INaturalist2019
from data_modules.mini import MiniDecathlon
from data_modules.multi_task import MultiTask
from data_modules.multi_text import MultiText
from data_modules.pocket import PocketDecathlon
from data_modules.pocket.texts import PocketGrammar, PocketParaphrases, PocketReviews
from data_modules.segmentation import ADE20K, VOC12, VOC12Aug
from data_modules.sharded import ShardedData
from data_modules.small_images import CIFAR10, CIFAR100, FER2013, GTSRB, SVHN, FashionMNIST, Omniglot
from data_modules.text import TextDataModule
from data_modules.tiny_imagenet import TinyImageNet

__all__ = [
    "ADE20K",
    "CIFAR10",
    "CIFAR100",
    "DTD",
    "FER2013",
    "GTSRB",
    "HAM10000",
    "IMDB",
    "MRPC",
    "RTE",
    "SST2",
    "SVHN",
    "VOC12",
    "Caltech101",
    "CoLA",
    "DatasetInfo",
    "Decathlon",
    "FGVCAircraft",
    "FashionMNIST",
    "Flowers102",
    "Food101",
    "IMDBSubset",
    "INaturalist2019",
    "ImageDataModule",
    "ImageFolderData",
    "ImageNet",
    "MiniDecathlon",
    "MultiTask",
    "MultiText",
    "Omniglot",
    "OxfordIIITPet",
    "PocketDecathlon",
    "PocketGrammar",
    "PocketParaphrases",
    "PocketReviews",
    "ShardedData",
    "StanfordCars",
    "TaskDataModule",
    "TextDataModule",
    "TinyImageNet",
    "VOC12Aug",
]
