"""The registry of data sets: a new set needs only one import line here.

Everything follows from these imports: ``data_modules.NAME`` and ``--data NAME``, ``lgx data list`` and
``lgx data prepare``, and the names that ``MultiTask`` and ``MultiText`` take. ``import X as X`` exports a name, ``*``
those of ``__all__``.
"""

from typing import Any

from data_modules.sets.fer2013 import FER2013 as FER2013
from data_modules.sets.ham10000 import HAM10000 as HAM10000
from data_modules.sets.imagenet import ImageNet as ImageNet
from data_modules.sets.inaturalist import INaturalist2019 as INaturalist2019
from data_modules.sets.masked_sets import ADE20K as ADE20K
from data_modules.sets.masked_sets import VOC12 as VOC12
from data_modules.sets.masked_sets import VOC12Aug as VOC12Aug
from data_modules.sets.official import OfficialData as OfficialData
from data_modules.sets.text_sets import *  # noqa: F403
from data_modules.sets.tiny_imagenet import TinyImageNet as TinyImageNet
from data_modules.sets.torchvision_sets import *  # noqa: F403
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
