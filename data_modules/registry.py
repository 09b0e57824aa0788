"""The registry of data sets: a new set needs only one import line here.

Everything follows from these imports: ``data_modules.NAME`` and ``--data NAME``, ``lgx data list`` and
``lgx data prepare``, and the names that ``MultiTask`` and ``MultiText`` take. ``import X as X`` exports a name.
"""

from typing import Any

from data_modules.sets.fashion_mnist import FashionMNIST as FashionMNIST
from data_modules.sets.fer2013 import FER2013 as FER2013
from data_modules.sets.ham10000 import HAM10000 as HAM10000
from data_modules.sets.imagenet import ImageNet as ImageNet
from data_modules.sets.inaturalist import INaturalist2019 as INaturalist2019
from data_modules.sets.masked_sets import ADE20K as ADE20K
from data_modules.sets.masked_sets import VOC12 as VOC12
from data_modules.sets.masked_sets import VOC12Aug as VOC12Aug
from data_modules.sets.official import OfficialData as OfficialData
from data_modules.sets.text_sets import IMDB as IMDB
from data_modules.sets.text_sets import MNLI as MNLI
from data_modules.sets.text_sets import MRPC as MRPC
from data_modules.sets.text_sets import QNLI as QNLI
from data_modules.sets.text_sets import QQP as QQP
from data_modules.sets.text_sets import RTE as RTE
from data_modules.sets.text_sets import SST2 as SST2
from data_modules.sets.text_sets import WNLI as WNLI
from data_modules.sets.text_sets import CoLA as CoLA
from data_modules.sets.text_sets import IMDBSubset as IMDBSubset
from data_modules.sets.tiny_imagenet import TinyImageNet as TinyImageNet
from data_modules.sets.torchvision_sets import CIFAR10 as CIFAR10
from data_modules.sets.torchvision_sets import CIFAR100 as CIFAR100
from data_modules.sets.torchvision_sets import DTD as DTD
from data_modules.sets.torchvision_sets import GTSRB as GTSRB
from data_modules.sets.torchvision_sets import SVHN as SVHN
from data_modules.sets.torchvision_sets import Caltech101 as Caltech101
from data_modules.sets.torchvision_sets import EuroSAT as EuroSAT
from data_modules.sets.torchvision_sets import FGVCAircraft as FGVCAircraft
from data_modules.sets.torchvision_sets import Flowers102 as Flowers102
from data_modules.sets.torchvision_sets import Food101 as Food101
from data_modules.sets.torchvision_sets import Omniglot as Omniglot
from data_modules.sets.torchvision_sets import OxfordIIITPet as OxfordIIITPet
from data_modules.sets.torchvision_sets import StanfordCars as StanfordCars
from data_modules.suites.decathlon import DECATHLON as DECATHLON
from data_modules.suites.decathlon import Decathlon as Decathlon
from data_modules.suites.mini_decathlon import MINI as MINI
from data_modules.suites.mini_decathlon import MiniDecathlon as MiniDecathlon
from data_modules.suites.pocket.scenes import PocketScenes as PocketScenes
from data_modules.suites.pocket.tasks import POCKET as POCKET
from data_modules.suites.pocket.tasks import PocketDecathlon as PocketDecathlon
from data_modules.suites.pocket.texts import PocketGrammar as PocketGrammar
from data_modules.suites.pocket.texts import PocketParaphrases as PocketParaphrases
from data_modules.suites.pocket.texts import PocketReviews as PocketReviews
from data_modules.suites.suite import Suite as Suite
from data_modules.text.module import TextSet as TextSet


def _registered(base: Any) -> dict[str, Any]:
    """The imported sets of one kind by name, in alphabetical order. Base classes have no ``info``."""
    sets = [v for v in globals().values() if isinstance(v, type) and issubclass(v, base) and hasattr(v, "info")]
    return {kind.info.name: kind for kind in sorted(sets, key=lambda kind: kind.info.name)}


IMAGE_SETS: dict[str, type[OfficialData]] = _registered(OfficialData)
"""Every image set that is not a task of a suite, by name."""

TEXT_SETS: dict[str, type[TextSet]] = _registered(TextSet)
"""Every text set, by name."""

SUITES: dict[str, Suite[Any]] = {value.name: value for value in list(globals().values()) if isinstance(value, Suite)}
"""Every suite of tasks, by name; ``lgx data prepare SUITE`` prepares all of its tasks."""
