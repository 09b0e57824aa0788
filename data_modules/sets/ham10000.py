"""HAM10000 (Tschandl et al., 2018): dermatoscopic images of pigmented skin lesions."""

import functools
from pathlib import Path

from data_modules.base import DatasetInfo, Split
from data_modules.files.tables import table_records
from data_modules.images.examples import ImageFiles, LabeledImages
from data_modules.sets.official import Archive, OfficialData
from data_modules.splits import Indices, grouped_split

TABLES = ("HAM10000_metadata", "HAM10000_metadata.csv")
"""Published names of the table."""


class HAM10000(OfficialData):
    """HAM10000: 10,015 images of about 7,500 lesions, of seven diagnoses.

    Its publishers define no test images among these, and the papers on learngenes do not describe their split. Many
    lesions were photographed several times, so that the split draws whole lesions: a fixed fifth of the lesions of each
    diagnosis is test, ``val_fraction`` of the other lesions is val, and no lesion is in two splits.

    Files are at ``root/ham10000``: the table ``HAM10000_metadata`` (or ``.csv``), and ``<image_id>.jpg`` in
    any folder below.
    """

    info = DatasetInfo(
        name="ham10000", num_classes=7, sizes=(None, None, None), license="CC BY-NC-SA 4.0 (as copies state it)",
        source="https://doi.org/10.7910/DVN/DBW86T",
        splits="no official split: a fixed fifth of the lesions is test, a share of the other lesions val",
        class_names=("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc"),
    )  # fmt: skip
    marker = tuple((name,) for name in TABLES)
    archives = (
        Archive("HAM10000_images_part_1.zip", folder="images"),
        Archive("HAM10000_images_part_2.zip", folder="images"),
        Archive("HAM10000_metadata"),
    )
    manual = (
        "download HAM10000_images_part_1.zip, HAM10000_images_part_2.zip and HAM10000_metadata from "
        "https://doi.org/10.7910/DVN/DBW86T into a folder of your own and give it as --source"
    )

    def open(self, folder: Path, split: Split) -> ImageFiles:
        """Match the table with the files and draw the test lesions."""
        rows = self._rows
        paths = {path.stem: str(path.relative_to(folder)) for path in sorted(folder.rglob("*.jpg"))}
        labels = [self.info.class_names.index(row["dx"]) for row in rows]
        files = ImageFiles(folder, [paths[row["image_id"]] for row in rows], labels, f"{self.info.name} {split}")
        rest, test = self._draw(files, fraction=0.2, seed=0)
        return files.take(test if split == "test" else rest)

    def hold_out(self, train: LabeledImages | ImageFiles) -> tuple[Indices, Indices]:
        """Hold whole lesions out, if there is a table."""
        if isinstance(train, ImageFiles) and self.is_official_form(self.folder):
            return self._draw(train, self.val_fraction, self.split_seed)
        return super().hold_out(train)

    def _draw(self, files: ImageFiles, fraction: float, seed: int) -> tuple[Indices, Indices]:
        lesion_of = {row["image_id"]: row["lesion_id"] for row in self._rows}
        lesions = [lesion_of[files.path(i).stem] for i in range(len(files))]
        # A lesion counts with its first diagnosis, so that a second diagnosis cannot split it.
        first = dict(zip(reversed(lesions), reversed(files.labels.tolist()), strict=True))
        return grouped_split([first[lesion] for lesion in lesions], lesions, fraction, seed)

    @functools.cached_property
    def _rows(self) -> list[dict[str, str]]:
        path = next(self.folder / name for name in TABLES if (self.folder / name).is_file())
        return [row for _, row in table_records(path, ("image_id", "lesion_id", "dx"))]
