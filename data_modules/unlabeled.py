"""``UnlabeledFolderData``: images of a user without classes."""

from dataclasses import dataclass, field

from data_modules.base import DatasetInfo, Split
from data_modules.class_trees import read_all
from data_modules.image_module import ImageDataModule
from data_modules.images import Images
from data_modules.official import TREE_NAMES, tree_split
from data_modules.splits import stratified_split
from lgx.core.schema import LINE
from lgx.errors import UserError
from lgx.host.safety import IMAGE_SUFFIXES


@dataclass(eq=False, repr=False)
class UnlabeledFolderData(ImageDataModule):
    """Images in a folder and in all folders below it, without labels: for methods that learn from an ancestor alone.

    If the folder holds a folder ``train``, the images in it are the training images, those in ``val`` and ``test`` the
    others; else all images are training images. Without ``val`` a share of them is held out. Names of folders below
    these count for nothing.

    Args:
        root: The folder.
        name: Name of the task; default the name of the folder.
        img_size: Height and width in pixels.
        labels: Always false.
    """

    root: str = field()
    img_size: int = 224
    labels: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if self.labels:
            raise UserError("data.labels: UnlabeledFolderData has none; use ImageFolderData for class folders")
        if not self.root_folder.is_dir():
            raise UserError(f"data.root: {self.root} is no folder; give one that holds images")
        self.info = DatasetInfo(
            name=self.name or self.root_folder.resolve().name,
            num_classes=0,
            sizes=(None, None, None),
            license="the user's own",
            source=self.root,
            splits="the folders train, val (or a share of train) and test, or a share of all images as val",
            img_size=self.img_size,
        )
        if not LINE.holds(self.info.name):
            raise UserError(
                f"data.root: the name of the folder {self.info.name!a} is the name of the task, but cannot be printed "
                f"in one line; give the task a name with --data.name"
            )
        super().__post_init__()

    def read(self, split: Split) -> Images:
        """Return the images of one split, all of class 0.

        Raises:
            UserError: If there is no image, or no folder ``test`` where one is asked for.
        """
        name, folder = self.info.name, self.root_folder
        train, own = (tree_split(folder, TREE_NAMES[part]) for part in ("train", split))
        if split == "test" and (train is None or own is None):
            raise UserError(f"{name}: {folder} has no folder test/ beside a folder train/; only training reads it")
        has_val = train is not None and tree_split(folder, TREE_NAMES["val"]) is not None
        place = (own if split == "test" or has_val else train) or folder
        files = read_all(place, f"{name} {split}")
        if len(files) == 0:
            raise UserError(f"{name} {split}: no image in {place} or below (looked for {', '.join(IMAGE_SUFFIXES)})")
        if split == "test" or has_val:
            return files
        kept, held = stratified_split(files.labels, self.val_fraction, self.split_seed)
        return files.take(held if split == "val" else kept)
