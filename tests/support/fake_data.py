"""Tiny sets in the real on-disk formats; each function writes ``root/<name>`` in the published layout."""

import csv
import gzip
import hashlib
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
from PIL import Image
from torchvision import datasets

from data_modules.base import DatasetInfo
from data_modules.images.examples import LabeledImages
from data_modules.sets.inaturalist import INaturalist2019
from data_modules.sets.tiny_imagenet import TinyImageNet
from data_modules.shards.writing import write_shards


def picture(seed: int, size: tuple[int, int] = (16, 16), mode: str = "RGB") -> Image.Image:
    """Random pixels."""
    shape = size if mode == "L" else (*size, 3)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def save(path: Path, seed: int, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed, mode=mode).save(path)


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def class_tree(folder: Path, classes: list[str], per_class: int, seed: int = 0, suffix: str = "png") -> None:
    for c, name in enumerate(classes):
        for i in range(per_class):
            save(folder / name / f"{i:03d}.{suffix}", seed * 10_000 + c * 100 + i)


def idx_file(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return head + array.astype(np.uint8).tobytes()


def fashion_idx(folder: Path, train: int = 60, test: int = 20, packed: bool = False) -> None:
    """The four idx files."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for prefix, n in (("train", train), ("t10k", test)):
        contents = {
            f"{prefix}-images-idx3-ubyte": idx_file(rng.integers(0, 256, (n, 28, 28))),
            f"{prefix}-labels-idx1-ubyte": idx_file(np.arange(n) % 10),
        }
        for name, data in contents.items():
            (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)


def fashion_mnist(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fashion_idx(root / "fashion_mnist" / "FashionMNIST" / "raw")


def cifar10(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickled batches, and torchvision is changed to expect their md5 sums."""
    folder = root / "cifar10" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)

    def write(name: str, content: Any) -> str:
        (folder / name).write_bytes(pickle.dumps(content))
        return md5(folder / name)

    def batch(n: int) -> dict[str, Any]:
        return {"data": rng.integers(0, 256, (n, 3072), dtype=np.uint8), "labels": [i % 10 for i in range(n)]}

    kind = datasets.CIFAR10
    monkeypatch.setattr(kind, "train_list", [[f"data_batch_{i}", write(f"data_batch_{i}", batch(20))] for i in (1, 2)])
    monkeypatch.setattr(kind, "test_list", [["test_batch", write("test_batch", batch(20))]])
    names = {"label_names": list("abcdefghij")}
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": write("batches.meta", names)})


def fer2013(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "fer2013" / "fer2013" / "fer2013.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["emotion", "pixels", "Usage"])
        for i, usage in enumerate(["Training"] * 14 + ["PublicTest"] * 7 + ["PrivateTest"] * 7):
            pixels = np.random.default_rng(i).integers(0, 256, 48 * 48)
            writer.writerow([i % 7, " ".join(map(str, pixels)), usage])


def dtd(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = root / "dtd" / "dtd" / "dtd"
    for k, split in enumerate(("train", "val", "test")):
        names = [f"{c}/{c}_{k}{i}.jpg" for c in ("banded", "woven") for i in range(3)]
        for i, name in enumerate(names):
            save(base / "images" / name, k * 10 + i)
        (base / "labels").mkdir(exist_ok=True)
        (base / "labels" / f"{split}1.txt").write_text("\n".join(names) + "\n")


def food101(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = root / "food101" / "food-101"
    (base / "meta").mkdir(parents=True)
    for split, n in (("train", 10), ("test", 4)):
        meta = {c: [f"{c}/{split}{i}" for i in range(n)] for c in ("apple_pie", "waffles")}
        (base / "meta" / f"{split}.json").write_text(json.dumps(meta))
        for c, names in enumerate(meta.values()):
            for i, name in enumerate(names):
                save(base / "images" / f"{name}.jpg", n * 1000 + c * 100 + i)


def oxford_iiit_pet(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = root / "oxford_iiit_pet" / "oxford-iiit-pet"
    (base / "annotations").mkdir(parents=True)
    for split, n in (("trainval", 20), ("test", 6)):
        lines = []
        for i in range(n):
            name = f"{('Abyssinian', 'beagle')[i % 2]}_{split}{i}".replace("trainval", "1").replace("test", "2")
            save(base / "images" / f"{name}.jpg", n * 100 + i)
            lines.append(f"{name} {i % 2 + 1} {i % 2 + 1} 1")
        (base / "annotations" / f"{split}.txt").write_text("\n".join(lines) + "\n")


def flowers102(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = root / "flowers102" / "flowers-102"
    for i in range(1, 19):
        save(base / "jpg" / f"image_{i:05d}.jpg", i)
    scipy.io.savemat(base / "imagelabels.mat", {"labels": np.arange(18) % 3 + 1})
    ids = {"trnid": np.arange(1, 7), "valid": np.arange(7, 10), "tstid": np.arange(10, 19)}
    scipy.io.savemat(base / "setid.mat", ids)
    names = {"label": "imagelabels.mat", "setid": "setid.mat"}
    known = {key: (name, md5(base / name)) for key, name in names.items()}
    monkeypatch.setattr(datasets.Flowers102, "_file_dict", {**datasets.Flowers102._file_dict, **known})


def caltech101(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = root / "caltech101" / "caltech101" / "101_ObjectCategories"
    for k, name in enumerate(("BACKGROUND_Google", "accordion", "yin_yang")):
        for i in range(1, 41):
            save(base / name / f"image_{i:04d}.jpg", k * 100 + i)


def stanford_cars(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = root / "stanford_cars" / "stanford_cars"
    (base / "devkit").mkdir(parents=True)
    files = {"train": (base / "devkit" / "cars_train_annos.mat", 20)}
    files["test"] = (base / "cars_test_annos_withlabels.mat", 6)
    for split, (path, n) in files.items():
        rows = np.zeros(n, dtype=[("fname", object), ("class", object)])
        for i in range(n):
            save(base / f"cars_{split}" / f"{i:05d}.jpg", n * 100 + i)
            rows[i] = (f"{i:05d}.jpg", i % 2 + 1)
        scipy.io.savemat(path, {"annotations": rows})
    scipy.io.savemat(base / "devkit" / "cars_meta.mat", {"class_names": np.array(["a", "b"], dtype=object)})


def imagenet(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k, split in enumerate(("train", "val")):
        class_tree(root / "imagenet" / split, ["n01440764", "n01443537"], (20, 5)[k], k, "JPEG")


def ham10000(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six lesions per diagnosis with two photographs each, in two folders, as in the two zip files."""
    base, rows = root / "ham10000", []
    for i, (d, lesion, _) in enumerate(np.ndindex(7, 6, 2)):
        name = f"ISIC_{i:07d}"
        save(base / f"HAM10000_images_part_{1 + i % 2}" / f"{name}.jpg", i)
        diagnosis = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")[d]
        rows.append([f"HAM_{d * 6 + lesion:07d}", name, diagnosis, "histo", "80.0", "male", "scalp"])
    with (base / "HAM10000_metadata.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"], *rows])


def tiny_imagenet(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes instead of 200, not in alphabetical order, with the table of the val images and unlabeled tests."""
    monkeypatch.setattr(TinyImageNet, "info", replace(TinyImageNet.info, num_classes=2))
    base, wnids = root / "tiny_imagenet" / "tiny-imagenet-200", ("n02124075", "n01443537")
    for c, wnid in enumerate(wnids):
        for i in range(20):
            save(base / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", c * 100 + i)
    for i in range(6):
        save(base / "val" / "images" / f"val_{i}.JPEG", 500 + i)
        save(base / "test" / "images" / f"test_{i}.JPEG", 600 + i)
    rows = [f"val_{i}.JPEG\t{wnids[i % 2]}\t0\t32\t44\t62\n" for i in range(6)]
    (base / "val" / "val_annotations.txt").write_text("".join(rows))
    (base / "wnids.txt").write_text("\n".join(wnids) + "\n")


def inat2019(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of 1,010 species in two super categories; one folder holds the images of both tables."""
    monkeypatch.setattr(INaturalist2019, "info", replace(INaturalist2019.info, num_classes=3))
    base, places = root / "inat2019", ("Birds/400", "Birds/7", "Plants/12")
    categories = [{"id": int(Path(p).name), "name": Path(p).name, "supercategory": Path(p).parent.name} for p in places]
    for part, per_class in (("train", 10), ("val", 3)):
        images, annotations = [], []
        for k in range(3 * per_class):
            name = f"train_val2019/{places[k % 3]}/{part}{99 - k}.jpg"
            save(base / name, (part == "val") * 1000 + k)
            images.append({"id": 100 + k, "file_name": name, "width": 16, "height": 16, "license": 0})
            annotations.append({"id": k, "image_id": 100 + k, "category_id": categories[k % 3]["id"]})
        table = {"images": images, "annotations": annotations, "categories": categories}
        (base / f"{part}2019.json").write_text(json.dumps(table))


FORMATS = {
    f.__name__: f
    for f in (
        fashion_mnist, cifar10, fer2013, dtd, food101, oxford_iiit_pet, flowers102, caltech101, stanford_cars, imagenet,
        ham10000, tiny_imagenet, inat2019,
    )
}  # fmt: skip
"""Name of a set -> the function that writes it; it may change the expected md5 sums or number of classes."""

TOY = DatasetInfo("toy", 4, (23, 9, 7), "none", "here", "made up", 8, 3, (0.5,) * 3, (0.5,) * 3)


def numbered(n: int, split: str = "train") -> LabeledImages:
    """Images whose pixels are all their own index, so that a batch shows which examples it contains."""
    images = [(Image.new("RGB", (8, 8), (i, i, i)), i % 4) for i in range(n)]
    return LabeledImages(images, [label for _, label in images], f"toy {split}")


def number_of(image: Image.Image) -> torch.Tensor:
    return torch.tensor(np.asarray(image)[0, 0, 0])


def toy_shards(folder: Path) -> Path:
    """23 / 9 / 7 examples in shards of 5."""
    for split, n in (("train", 23), ("val", 9), ("test", 7)):
        write_shards(numbered(n, split), folder, split, TOY, shard_size=5)
    return folder
