"""Several image sets as one: every batch holds examples of one task."""

from typing import Literal

from data_modules.catalogue import open_set
from data_modules.several import SeveralSets
from data_modules.transforms import Augment
from lgx.errors import UserError


class MultiTask(SeveralSets):
    """Trains on several image sets at once, see :class:`~data_modules.several.SeveralSets`.

    Args:
        tasks: The data sets: names of ``lgx data list``, or folders of one's own images
            (train/<class>/<image>, test/...).
        root: Folder below which the named data sets lie.
        batch_size: Training examples per process and step.
        eval_batch_size: Evaluation examples per process and step; default 2 x ``batch_size``.
        img_size: Height and width in pixels that the images of all tasks are brought to.
        in_chans: 1 (grey) or 3 (RGB) channels, for all tasks.
        augment: Training augmentation, see :class:`~data_modules.base.ImageDataModule`.
        temperature: T of the draw; 1 draws by size, larger ones flatten, ``.inf`` draws uniformly.
        steps_per_epoch: Training steps of an epoch; default as many as see the sum of all training examples.
        num_workers: Loader processes; 0 loads in the training process.
        val_fraction: Share of a task's training images held out for validation where it has no official one.
        split_seed: Seed of that split and of the limits.
        seed: Seed of draws, order and augmentation.
        limit_train: Use only the first so many training examples of each task's class-stratified, seeded draw.
        limit_eval: Likewise for validation; the test is always whole.
    """

    def __init__(
        self,
        tasks: tuple[str, ...],
        root: str = "data",
        batch_size: int = 128,
        eval_batch_size: int | None = None,
        img_size: int = 224,
        in_chans: Literal[1, 3] = 3,
        augment: Augment = "none",
        temperature: float = 2.0,
        steps_per_epoch: int | None = None,
        num_workers: int = 0,
        val_fraction: float = 0.1,
        split_seed: int = 0,
        seed: int = 0,
        limit_train: int | None = None,
        limit_eval: int | None = None,
    ) -> None:
        if img_size < 1:
            raise UserError(f"data.img_size: expected at least 1, got {img_size}")
        modules = [
            open_set(
                name, root, batch_size=batch_size, eval_batch_size=eval_batch_size, img_size=img_size,
                in_chans=in_chans, augment=augment, num_workers=num_workers, val_fraction=val_fraction,
                split_seed=split_seed, seed=seed, limit_train=limit_train,
            )
            for name in tasks
        ]  # fmt: skip
        super().__init__(
            modules, batch_size, eval_batch_size, temperature, steps_per_epoch, num_workers, seed, limit_eval
        )
