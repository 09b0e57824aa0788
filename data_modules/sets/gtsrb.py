"""GTSRB, the German Traffic Sign Recognition Benchmark (Stallkamp et al., 2012)."""

from torchvision import datasets

from data_modules.base import DatasetInfo
from data_modules.images.examples import ImageFiles, LabeledImages
from data_modules.library_internals import image_files_of
from data_modules.sets.official import Archive, TorchvisionSet
from data_modules.splits import Indices, grouped_split


class GTSRB(TorchvisionSet):
    """German traffic signs. About 30 frames show one sign from one passing car, so val takes whole tracks."""

    info = DatasetInfo(
        name="gtsrb",
        num_classes=43,
        sizes=(None, None, 12_630),
        license="none stated",
        source="https://benchmark.ini.rub.de/",
        splits="official train (26,640 images, of which whole tracks are held out as val) and test",
        img_size=32,
        mean=(0.3403, 0.3121, 0.3214),
        std=(0.2724, 0.2608, 0.2669),
    )
    marker = "gtsrb/GTSRB"
    archives = tuple(
        Archive(f"https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/{filename}", md5, "gtsrb")
        for filename, md5 in (
            ("GTSRB-Training_fixed.zip", "513f3c79a4c5141765e10e952eaa2478"),
            ("GTSRB_Final_Test_Images.zip", "c7e4e6327067d32654124b0fe9e82185"),
            ("GTSRB_Final_Test_GT.zip", "fe31e9c9270bbcd7b84b7f21a9d9d9e5"),
        )
    )
    reader = datasets.GTSRB
    unpacked_splits = ("train", "test")

    def hold_out(self, train: LabeledImages | ImageFiles) -> tuple[Indices, Indices]:
        """Hold whole tracks out: a file is called ``<track>_<frame>.ppm``."""
        if isinstance(train, ImageFiles):
            names = [train.path(i).name for i in range(len(train))]
        else:
            names = [path.name for path in image_files_of(train.source)]
        return grouped_split(train.labels, [n.split("_")[0] for n in names], self.val_fraction, self.split_seed)
