"""The options of the data modules: names, types, defaults and help of ``--data.*`` stand here once.

They are dataclasses, from which the data modules inherit their constructors. An option stays an attribute of its name,
exactly as it was given; a value that follows from several options is a property or part of the task.
"""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import ClassVar, Literal

from torchvision.transforms import v2

from data_modules.base import WORKER_TIMEOUT
from data_modules.loaders import check_workers
from data_modules.transforms import Augment
from lgx.core.image_size import IMAGE_SIZE, ImageSize
from lgx.core.reading import ResizeMode
from lgx.errors import UserError
from lgx.host.images import MOST_CHANNELS

VAL_FRACTION = 0.1


@dataclass(eq=False, repr=False)
class DataOptions:
    """Options of every data module.

    Args:
        root: Folder that contains the data sets, one folder each.
        batch_size: Training examples per process and step.
        eval_batch_size: Evaluation examples per process and step; default 2 x ``batch_size``.
        num_workers: Loader processes; 0 loads in the training process.
        worker_timeout: Seconds that a step waits for a batch of the loader processes before the run ends; 0 waits for
            ever.
        val_fraction: Share of the training examples held out for validation if the set has no official split for it; 0
            trains on all of them, without any validation.
        split_seed: Seed of that split. Not the run's seed, so that runs with different seeds stay comparable.
        seed: Seed of order and augmentation.
        limit_train: Use only the first so many training examples of a class-stratified, seeded draw.

    Raises:
        UserError: If an option is out of range.
    """

    root: str = "data"
    batch_size: int = 128
    eval_batch_size: int | None = None
    num_workers: int = 0
    worker_timeout: int = WORKER_TIMEOUT
    val_fraction: float = VAL_FRACTION
    split_seed: int = 0
    seed: int = 0
    limit_train: int | None = None

    def __post_init__(self) -> None:
        self.check_options()

    def check_options(self) -> None:
        """Refuse options that are out of range.

        Raises:
            UserError: If one is.
        """
        check_least(self, {"batch_size": 1, "eval_batch_size": 1, "worker_timeout": 0, "limit_train": 1})
        check_workers(self.num_workers, "data.num_workers")
        if not 0 <= self.val_fraction < 1:
            raise UserError(f"data.val_fraction: expected a share of at least 0 and below 1, got {self.val_fraction}")

    @property
    def root_folder(self) -> Path:
        """``root`` as a path."""
        return Path(self.root)

    @property
    def evaluation_batch(self) -> int:
        """Evaluation examples per process and step."""
        return self.eval_batch_size or 2 * self.batch_size


@dataclass(eq=False, repr=False)
class ImageOptions(DataOptions):
    """Options of image sets.

    Args:
        img_size: Side of the images in pixels, or ``[height, width]``; default the data set's own, or that of the
            network's source where ``model.arch`` is left out, too.
        in_chans: 1 (gray) or 3 (RGB) channels; default the data set's own. Class folders of your own may have 2 to 16,
            as .npy or TIFF files.
        value_range: Values [LOW, HIGH] of image files with more than 8 bits that become 0 and 255; default all that
            unsigned 16 bits can have, or 0 and 1 of floating-point numbers. Files that use less than half of it need
            their own.
        resize: How images get the size: ``crop`` (resized until they cover it, cropped at the center), ``squash``
            (without their proportions), or ``letterbox`` (whole, within a border of the mean color).
        augment: Training augmentation: ``none``; ``crop`` (random crops of the padded image) or ``crop_flip`` (the same
            with flips) for small images; ``resized_crop`` (crops of 8 % to all of the area, with flips) or
            ``randaugment`` (the same with timm's ``rand-m9-mstd0.5-inc1``) for large ones. Where a mirrored image has
            another class, as digits and signs have, take ``none`` or ``crop``.
        transforms: Further transforms of each training image, after ``augment``: a list of torchvision's
            ``transforms.v2``, e.g. ``[{class_path: RandomRotation, init_args: {degrees: 15}}]``. They get pixels,
            uint8, of the task's size, and keep this size. ``LGX_ALLOW_IMPORTS`` also admits your own subclasses of
            ``transforms.v2.Transform``.
        mean: Mean of each channel with which images are normalized, in units of pixel value / 255; default that of the
            network's start where it is known, else the data set's own.
        std: Standard deviation of each channel, likewise; give both or neither.
        cache_gib: Decode the images of a split once if their pixels take at most so many GiB, and keep them in a file
            that processes and runs share: below ``$LGX_CACHE``, or ``~/.cache/lgx``. 0 decodes them in each epoch, as
            ``resized_crop``, ``randaugment``, masks and streams always do.
        labels: ``false`` gives the images without their labels, for methods that learn from an ancestor alone.
        balanced: Draw the training images of an epoch with replacement, so that all classes are drawn equally often.
            Validation then follows balanced accuracy.
    """

    img_size: ImageSize | None = None
    in_chans: int | None = None
    value_range: tuple[float, float] | None = None
    resize: ResizeMode = "crop"
    augment: Augment = "none"
    transforms: list[v2.Transform] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    cache_gib: float = 2.0
    labels: bool = True
    balanced: bool = False
    any_channels: ClassVar[bool] = False
    """Whether ``in_chans`` may be other than 1 and 3."""
    sized_by_network: ClassVar[bool] = False
    """Whether a run reads the images in the size of its network, because the set has no size of its own."""

    @property
    def has_channels(self) -> bool:
        """Whether the images are neither gray nor RGB."""
        return self.in_chans not in (None, 1, 3)

    def check_options(self) -> None:
        """See :class:`DataOptions`."""
        super().check_options()
        check_least(self, {"cache_gib": 0})
        if self.img_size is not None and not IMAGE_SIZE.holds(self.img_size):
            raise UserError(f"data.img_size: expected {IMAGE_SIZE.words}, got {self.img_size}")
        if self.has_channels and not (self.any_channels and 1 < (self.in_chans or 0) <= MOST_CHANNELS):
            others = f", or up to {MOST_CHANNELS} of .npy or TIFF files" if self.any_channels else ""
            raise UserError(f"data.in_chans: expected 1 (gray) or 3 (RGB){others}, got {self.in_chans}")
        if self.has_channels and self.augment not in ("none", "crop", "crop_flip"):
            raise UserError(f"data.augment: {self.augment} is for gray and RGB images; use crop or crop_flip")
        low, high = self.value_range or (0, 1)
        if not -math.inf < low < high < math.inf:
            raise UserError(f"data.value_range: expected two numbers, the smaller one first, got {low:g}, {high:g}")
        if (self.mean is None) != (self.std is None):
            raise UserError("data.mean and data.std: give both or neither")
        for option, values, least in (("mean", self.mean, -1.0), ("std", self.std, 0.0)):
            wrong = [value for value in values or () if not least < value < 5]  # 5: a mistake of factor 255 is larger
            if wrong or (values is not None and len(values) not in (1, 3, self.in_chans)):
                several = f"1, 3 or {self.in_chans}" if self.has_channels else "1 or 3"
                raise UserError(
                    f"data.{option}: expected {several} numbers in units of pixel value / 255, got "
                    f"{', '.join(map(str, values or ()))}"
                )


@dataclass(eq=False, repr=False)
class TextOptions(DataOptions):
    """Options of text sets.

    Args:
        tokenizer: Folder with GPT-2's ``encoder.json`` and ``vocab.bpe``, or a name on the Hugging Face hub; default
            ``root/gpt2_vocab``.
        source: ``files`` reads the publishers' files below ``root/<name>``; ``hub`` loads the set with Hugging Face
            ``datasets``.
        max_len: Longest text, in tokens; longer ones are cut at the end, and their number is reported.
        vocab_size: Tokens that the model knows.
        num_workers: Loader processes; texts are held in memory, so that 0, the training process itself, is fast enough.
        seed: Seed of the order.
    """

    batch_size: int = 32
    tokenizer: str | None = None
    source: Literal["files", "hub"] = "files"
    max_len: int = 128
    vocab_size: int = 50257

    def check_options(self) -> None:
        """See :class:`DataOptions`."""
        super().check_options()
        check_least(self, {"max_len": 3, "vocab_size": 2})


@dataclass(eq=False, repr=False)
class MixOptions:
    """Options of data modules that train on several sets.

    Args:
        tasks: The data sets, by the names of ``lgx data list``.
        temperature: T of the draw of tasks; 1 draws by size, larger values draw more evenly, ``.inf`` draws uniformly.
        steps_per_epoch: Training steps of an epoch; default as many as all training examples together fill.
        limit_eval: Use only the first so many validation examples of each task's class-stratified, seeded draw; the
            test is always whole.
    """

    tasks: tuple[str, ...]
    _: KW_ONLY
    temperature: float = 2.0
    steps_per_epoch: int | None = None
    limit_eval: int | None = None

    def check_mix(self) -> None:
        """Refuse options that are out of range.

        Raises:
            UserError: If one is.
        """
        if not self.tasks:
            raise UserError("data.tasks: expected at least one data set, got none; `lgx data list` shows all names")
        if not self.temperature > 0:
            raise UserError(
                f"data.temperature: expected a number above 0 (.inf draws uniformly), got {self.temperature}"
            )
        check_least(self, {"steps_per_epoch": 1, "limit_eval": 1})


def check_least(options: object, least: Mapping[str, int]) -> None:
    """Refuse numbers that are too small.

    Args:
        options: Object with the options as attributes; None is allowed if it is the default.
        least: Smallest value of each option.

    Raises:
        UserError: If an option is below its smallest value.
    """
    for option, smallest in least.items():
        value = getattr(options, option)
        if value is not None and value < smallest:
            optional = " or null" if getattr(type(options), option) is None else ""
            raise UserError(f"data.{option}: expected at least {smallest}{optional}, got {value}")


def copy_options(kind: type[DataOptions], source: DataOptions, target: DataOptions) -> None:
    """Give ``target`` all options of ``kind`` that ``source`` has, except ``root``.

    Raises:
        UserError: If an option is out of range.
    """
    assert isinstance(source, kind)
    assert isinstance(target, kind)
    for option in fields(kind):
        if option.name != "root":
            setattr(target, option.name, getattr(source, option.name))
    target.check_options()
