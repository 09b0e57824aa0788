"""Segmentation sets: masks, transforms of images together with masks, and mistakes in files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.nn import functional as F

from data_modules import MultiTask
from data_modules.images.transforms import MaskTransform
from data_modules.registry import IMAGE_SETS
from data_modules.sets.bring import bring
from data_modules.sets.segmentation import SegmentationSet
from data_modules.suites.pocket import scenes
from lgx.core.task import IGNORE, Task
from lgx.errors import UserError
from tests.support import fake_masks

SPLITS = ("train", "val", "test")


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Root with all segmentation sets, and 48 images of three shapes to classify."""
    return fake_masks.write_all(tmp_path_factory.mktemp("masks"))


def module(name: str, root: Path, **options) -> SegmentationSet:
    made = IMAGE_SETS[name](root=str(root), **{"img_size": 24, "batch_size": 4, "val_fraction": 0.2, **options})
    assert isinstance(made, SegmentationSet)
    return made


@pytest.mark.parametrize(
    ("name", "sizes", "classes"),
    [
        ("ade20k", [32, 8, 8], {0, 4, 19, 149, IGNORE}),
        ("voc12", [8, 2, 6], {0, 1, 20, IGNORE}),
        ("voc12_aug", [19, 5, 6], {0, 1, 20, IGNORE}),
    ],
)
def test_masks_are_read_into_disjoint_splits(root, name, sizes, classes):
    made = module(name, root)
    assert made.is_present(root)
    task = made.task
    assert (task.kind, task.metric, task.num_classes) == ("segmentation", "miou", made.info.num_classes)
    pixels = []
    for split, size in zip(SPLITS, sizes, strict=True):
        images = made.read(split)
        assert len(images) == size
        examples = [images[i] for i in range(size)]
        assert {int(c) for _, mask in examples for c in np.unique(mask)} == classes
        pixels += [image.tobytes() for image, _ in examples]
    assert len(set(pixels)) == sum(sizes)
    made.setup("fit")
    batch = next(iter(made.train_dataloader()))
    assert batch.inputs.shape == (4, 3, 24, 24)
    assert (batch.targets.shape, batch.targets.dtype, batch.task) == ((4, 24, 24), torch.int64, name)
    assert set(batch.targets.unique().tolist()) <= classes


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(["none", "crop_flip"]), st.integers(40, 90), st.integers(40, 90))
def test_masks_are_transformed_like_their_images(seed, augment, height, width):
    rng = np.random.default_rng(seed)
    mask = np.zeros((height, width), np.uint8)
    y, x = rng.integers(0, [height - 16, width - 16])  # one square: between two there may be less than a pixel
    mask[y : y + 16, x : x + 16] = 1
    image = Image.fromarray(mask * 255).convert("RGB")
    torch.manual_seed(seed)
    task = Task("t", 2, img_size=64, mean=(0.5,) * 3, std=(0.5,) * 3)
    inputs, targets = MaskTransform(task, augment)(image, mask)
    white = inputs.mean(dim=0) > 0
    assert set(targets.unique().tolist()) <= {0, 1}
    inner = F.avg_pool2d(targets[None].float(), 5, stride=1, padding=2)[0]
    sure = (inner == 0) | (inner == 1)  # interpolation may differ at the edges of a shape
    sure[[0, 1, -1, -2]] = sure[:, [0, 1, -1, -2]] = False
    assert torch.equal(white[sure], targets[sure] == 1)


def test_batches_of_both_kinds_come_from_one_module(root):
    tasks = ("ade20k", str(root / "shapes"), "voc12")
    both = MultiTask(tasks=tasks, root=str(root), img_size=24, batch_size=6, augment="crop_flip", limit_eval=3)
    assert (both.task.kind, both.task.metric) == ("classification", "score")
    alike = MultiTask(tasks=("ade20k", "voc12"), root=str(root), img_size=24)
    assert (alike.task.kind, alike.task.metric, alike.num_classes) == ("segmentation", "miou", 150)
    both.setup("fit")
    shapes = {batch.task: tuple(batch.targets.shape) for batch in both.train_dataloader()}
    assert shapes == {"ade20k": (6, 24, 24), "shapes": (6,), "voc12": (6, 24, 24)}
    assert [(b.task, len(b.targets)) for b in both.val_dataloader()] == [("ade20k", 3), ("shapes", 3), ("voc12", 1)]


def test_unknown_labels_name_file_and_value(tmp_path):
    fake_masks.ade20k(tmp_path, train=10)
    fake_masks.voc12(tmp_path)
    path = tmp_path / "ade20k/ADEChallengeData2016/annotations/validation/ADE_val_00000001.png"
    for label in (151, 300):
        mask = np.full((24, 32), 3, np.int32)
        mask[5, 7] = label
        Image.fromarray(mask.astype(np.uint8 if label < 256 else np.uint16)).save(path)
        with pytest.raises(UserError, match=rf"ade20k test: .*ADE_val_00000001\.png .* {label}; expected 0 to 150$"):
            module("ade20k", tmp_path).read("test")[0]
    path = next((tmp_path / "voc12").rglob("2007_000000.png"))
    Image.fromarray(np.full((24, 32), 21, np.uint8)).save(path)
    with pytest.raises(UserError, match=r"2007_000000\.png has a pixel with label 21; expected 0 to 20 or 255$"):
        module("voc12", tmp_path).read("test")[0]
    Image.new("RGB", (32, 24)).save(path)
    with pytest.raises(UserError, match=r"2007_000000\.png is a color image; expected a mask"):
        module("voc12", tmp_path).read("test")[0]


def test_a_mask_of_another_size_names_both_even_from_a_loader_process(tmp_path):
    fake_masks.ade20k(tmp_path, train=10)
    path = tmp_path / "ade20k/ADEChallengeData2016/annotations/validation/ADE_val_00000003.png"
    Image.fromarray(np.ones((24, 31), np.uint8)).save(path)
    made = module("ade20k", tmp_path, num_workers=1)
    made.setup("test")
    with pytest.raises(UserError, match=r"^ade20k test: .*ADE_val_00000003\.png has 31 x 24 pixels, but its image "):
        list(made.test_dataloader())


def test_test_images_in_the_training_list_are_refused(tmp_path):
    fake_masks.voc12_aug(tmp_path)
    listed = next(tmp_path.rglob("trainaug.txt"))
    listed.write_text(listed.read_text() + "2007_000002\n")
    with pytest.raises(UserError, match=r"trainaug\.txt names 1 test images, first 2007_000002"):
        module("voc12_aug", tmp_path).read("train")


@pytest.mark.slow
def test_pocket_scenes_are_made_and_have_every_class_in_every_split(tmp_path, monkeypatch):
    bring(IMAGE_SETS["pocket_scenes"], tmp_path, None)
    data = module("pocket_scenes", tmp_path, val_fraction=0.1)
    data.setup("fit")
    data.setup("test")
    assert [len(data.read(split)) for split in SPLITS] == list(data.info.sizes)
    for split in SPLITS:
        images = data.read(split)
        seen = {int(label) for i in range(len(images)) for label in np.unique(images[i][1])}
        assert seen == set(range(7))
    first = (tmp_path / "pocket_scenes/test/0.png").read_bytes()
    monkeypatch.setattr(scenes, "SCENES", {"test": scenes.SCENES["test"]})
    scenes.draw_scenes(tmp_path / "other")
    assert (tmp_path / "other/test/0.png").read_bytes() == first
