"""The Visual Decathlon (Rebuffi et al., 2017): ten image tasks at 72 px, read from the annotations of its devkit."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from data_modules.base import DatasetInfo, Split
from data_modules.files.tables import read_annotations
from data_modules.images.examples import ImageFiles, Images
from data_modules.images.module import ImageDataModule
from data_modules.splits import stratified_split
from data_modules.suites.decathlon_archives import bring, what_to_fetch
from data_modules.suites.suite import Suite
from lgx.core.markers import Markers
from lgx.errors import UserError

DecathlonTask = Literal[
    "aircraft", "cifar100", "dped", "dtd", "gtsrb", "imagenet", "omniglot", "svhn", "ucf101", "flowers"
]
Part = Literal["train", "val"]

DECATHLON_TASKS: tuple[DecathlonTask, ...] = get_args(DecathlonTask)


@dataclass(frozen=True)
class TaskFacts:
    """Published facts of one task: its official name, classes, images of (train, val, test), and its normalization."""

    folder: str
    num_classes: int
    sizes: tuple[int, int, int]
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)


FACTS: dict[DecathlonTask, TaskFacts] = {
    "aircraft": TaskFacts("aircraft", 100, (3_334, 3_333, 3_333),
        (0.47983041, 0.51074066, 0.53437998), (0.21070221, 0.20508901, 0.23729657)),
    "cifar100": TaskFacts("cifar100", 100, (40_000, 10_000, 10_000),
        (0.50705882, 0.48666667, 0.44078431), (0.26745098, 0.25647059, 0.27607843)),
    "dped": TaskFacts("daimlerpedcls", 2, (23_520, 5_880, 19_600), (0.48203529,) * 3, (0.23612616,) * 3),
    "dtd": TaskFacts("dtd", 47, (1_880, 1_880, 1_880),
        (0.52696497, 0.47025164, 0.42396662), (0.25226877, 0.2409176, 0.2499409)),
    "gtsrb": TaskFacts("gtsrb", 43, (31_367, 7_842, 12_630),
        (0.33921263, 0.3117836, 0.32047045), (0.27560347, 0.26576119, 0.27089863)),
    "imagenet": TaskFacts("imagenet12", 1_000, (1_232_167, 49_000, 48_238)),
    "omniglot": TaskFacts("omniglot", 1_623, (17_853, 6_492, 8_115), (0.08099839,) * 3, (0.27046935,) * 3),
    "svhn": TaskFacts("svhn", 10, (47_217, 26_040, 26_032),
        (0.4376821, 0.4437697, 0.47280442), (0.19803012, 0.20101562, 0.19703614)),
    "ucf101": TaskFacts("ucf101", 101, (7_585, 1_952, 3_783),
        (0.49953101, 0.49880386, 0.49981996), (0.10898684, 0.10810246, 0.10679939)),
    "flowers": TaskFacts("vgg-flowers", 102, (1_020, 1_020, 6_149),
        (0.43414682, 0.38309883, 0.29714763), (0.28509808, 0.23842338, 0.2639633)),
}  # fmt: skip
"""Classes and sizes are those of the catalog of TensorFlow Datasets (``visual_domain_decathlon``), which counted the
official files. Means and deviations are the entries of ``decathlon_mean_std.pickle``, as public code lists them; they
are written here so that no pickle is ever opened. Its entry for ImageNet has another unit, so ImageNet has the usual
values.
"""


class DecathlonSuite(Suite[DecathlonTask]):
    """The ten tasks, which are unpacked from the official archives."""

    name, title, task_names = "decathlon", "Visual Decathlon", DECATHLON_TASKS
    what_to_fetch = staticmethod(what_to_fetch)

    def info(self, task: DecathlonTask) -> DatasetInfo:
        """Facts of a task as :class:`Decathlon` splits it."""
        facts = FACTS[task]
        train, val, _ = facts.sizes
        held = round(0.1 * train)
        splits = "test is the official val (the official test labels are not public); val is held out of train"
        return DatasetInfo(
            name=f"decathlon_{task}", num_classes=facts.num_classes, sizes=(train - held, held, val), splits=splits,
            license="the original set's", source="https://www.robots.ox.ac.uk/~vgg/decathlon/", img_size=72,
            mean=facts.mean, std=facts.std,
        )  # fmt: skip

    def module(self, task: DecathlonTask, root: str) -> "Decathlon":
        """The data module of a task."""
        return Decathlon(task, root=root)

    def markers(self, task: DecathlonTask) -> Markers:
        """The folder of the images of a task, and its annotations."""
        name = FACTS[task].folder
        labels = (f"decathlon/annotations/{name}_{part}.json" for part in ("train", "val"))
        return ((f"decathlon/data/{name}/", *labels),)

    def prepare(self, root: str | Path, task: DecathlonTask, source: str | Path | None = None) -> bool:
        """See :class:`~data_modules.suites.suite.Suite`."""
        if source is not None and not self.is_present(root, task):
            bring(Path(root) / "decathlon", FACTS[task].folder, source)
        return self.is_present(root, task)


DECATHLON = DecathlonSuite()


class Decathlon(ImageDataModule):
    """One task of the Visual Decathlon, in the official layout of ``decathlon-1.0``.

    Images are at ``root/decathlon/data/<official name>/{train,val,test}/...``, all with a short side of 72 px; labels
    are in ``root/decathlon/annotations/<official name>_{train,val}.json`` (COCO's format). The classes are in the order
    of their category ids.

    The labels of the official test images are not public. So the official **val** is the **test** split here, as papers
    report it, and validation images are held out of the official train: no choice depends on test images.

    The official split of ``gtsrb`` is by image, not by track, so its test figures are too high. A mirrored sign,
    character or digit has another meaning: use the augmentation ``crop`` for ``gtsrb``, ``omniglot`` and ``svhn``.

    Args:
        task: The task, one of ten.
        options: See :class:`~data_modules.images.module.ImageOptions`; the papers' ViTs use ``img_size`` 224.
    """

    def __init__(self, task: DecathlonTask = "aircraft", **options: Any) -> None:
        if task not in FACTS:
            raise UserError(f"data.task: expected one of {', '.join(FACTS)}, got {task}")
        self.decathlon_task: DecathlonTask = task
        self.facts = FACTS[task]
        self.info = DECATHLON.info(task)
        super().__init__(**options)

    @property
    def folder(self) -> Path:
        """Folder of the task's images."""
        return self.root_folder / "decathlon" / "data" / self.facts.folder

    def read(self, split: Split) -> Images:
        """See :class:`~data_modules.images.module.ImageDataModule`."""
        name = self.info.name
        if not DECATHLON.is_present(self.root, self.decathlon_task):
            raise UserError(
                f"{name}: no {self.folder} with annotations; run `lgx data prepare {name} --root {self.root}`, "
                "which says what to download"
            )
        if split == "test":
            return self.annotated("val", f"{name} test")
        kept, held = stratified_split(self._train.labels, self.val_fraction, self.split_seed)
        return self._train.take(held, f"{name} val") if split == "val" else self._train.take(kept)

    @functools.cached_property
    def _train(self) -> ImageFiles:
        """The official train, parsed once, because both train and val are parts of it."""
        return self.annotated("train")

    def annotated(self, part: Part, where: str | None = None) -> ImageFiles:
        """The files of an official split; ``where`` names it in messages.

        Raises:
            UserError: If its annotations are absent, damaged or not this task's.
        """
        base = self.root_folder / "decathlon"
        path = base / "annotations" / f"{self.facts.folder}_{part}.json"
        names, labels = read_annotations(path, self.num_classes, "unpack it from the devkit again")
        return ImageFiles(base, names, labels, where or f"{self.info.name} {part}")
