"""A user's own transforms of training images: per image, seeded, from configuration and command line."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from torchvision.transforms import v2

from data_modules import ImageFolderData
from data_modules.images.transforms import Augment, PixelTransforms, train_transform
from data_modules.loading.samplers import mix_seed
from data_modules.registry import IMAGE_SETS
from lgx.core.seed import seeded_rng
from lgx.core.task import Task
from lgx.errors import UserError

ROTATE = {"class_path": "RandomRotation", "init_args": {"degrees": 15}}
JITTER = {"class_path": "torchvision.transforms.v2.ColorJitter", "init_args": {"brightness": 0.2}}
NUMBERS = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]


def module(images: Path, **options: Any) -> ImageFolderData:
    given = {"transforms": [v2.RandomRotation(15), v2.ColorJitter(0.2)]} | options
    made = ImageFolderData(root=str(images), img_size=16, batch_size=8, **given)
    made.setup("fit")
    return made


def epoch(made: ImageFolderData, number: int = 0) -> torch.Tensor:
    loader: Any = made.train_dataloader()
    loader.batch_sampler.set_epoch(number)
    return torch.cat([batch.inputs for batch in loader])


def test_each_image_is_transformed_by_torchvision_with_the_seed_of_its_epoch_and_index(images: Path) -> None:
    made = module(images, augment="none", seed=5)
    examples, transform = made.examples("train"), v2.Compose([v2.RandomRotation(15), v2.ColorJitter(brightness=0.2)])
    found = made.transformed(examples, train=True)[(2, 7)][0]
    pixels = torch.from_numpy(np.array(examples[7][0])).permute(2, 0, 1)
    with seeded_rng(mix_seed(5, 2, 7, 1)):
        expected = transform(pixels)
    assert torch.equal(found, expected)
    assert not torch.equal(found, pixels)


def test_epochs_and_seeds_differ_and_processes_the_cache_and_evaluation_change_nothing(images):
    alone = epoch(module(images))
    assert torch.equal(alone, epoch(module(images)))
    assert torch.equal(alone, epoch(module(images, num_workers=2)))
    assert torch.equal(alone, epoch(module(images, cache_gib=0)))
    assert not torch.equal(alone, epoch(module(images, transforms=None)))
    assert not torch.equal(epoch(module(images), 0).sort()[0], epoch(module(images), 1).sort()[0])
    assert not torch.equal(alone.sort()[0], epoch(module(images, seed=1)).sort()[0])
    own, plain = module(images), module(images, transforms=None)
    for one, other in zip(own.val_dataloader(), plain.val_dataloader(), strict=True):
        assert torch.equal(one.inputs, other.inputs)


@pytest.mark.parametrize("augment", get_args(Augment))
def test_transforms_follow_every_augmentation(images: Path, augment: Augment) -> None:
    """Without randomness of its own, a transform of all pixels can be told from the result."""
    task = Task("t", 3, img_size=16, mean=(0.5,) * 3, std=(0.25,) * 3)
    picture = Image.open(next(images.rglob("train/circle/*.png"))).convert("RGB")
    results = []
    for own in (None, PixelTransforms([v2.RandomInvert(p=1.0)])):
        with seeded_rng(3):
            results.append(train_transform(task, augment, own)(picture))
    plain, inverted = results
    assert inverted.shape == (3, 16, 16)
    assert inverted.dtype == torch.float32
    erased = 24 if augment == "randaugment" else 0  # random erasing sets normalized values, after the transforms
    kept = (plain + inverted).isclose(torch.zeros(()), atol=0.05).all(dim=0)
    assert int((~kept).sum()) <= 16 * erased


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        (v2.CenterCrop(8), "returns (3, 8, 8), expected the shape (3, 16, 16)"),
        (v2.FiveCrop(16), "returns a tuple, expected the shape (3, 16, 16)"),
        (v2.RandomCrop(20), "RandomCrop cannot transform an image (ValueError"),
        (v2.Compose([*NUMBERS, v2.Normalize([0.5] * 3, [0.1] * 3)]), "or numbers between 0 and 1; data.mean and data"),
    ],
)
def test_a_result_that_is_no_image_is_refused_before_any_data_is_read(images, transform, sentence):
    with pytest.raises(UserError, match=r"data\.transforms: ") as refused:
        ImageFolderData(root=str(images), img_size=16, transforms=[transform])
    assert sentence in str(refused.value)


def test_masks_are_not_transformed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.transforms: change images of voc12 but not their masks"):
        IMAGE_SETS["voc12"](root=str(tmp_path), transforms=[v2.RandomInvert()])


def test_a_configuration_and_the_command_line_name_classes_and_their_arguments(fit, tmp_path):
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"data": {"init_args": {"transforms": [ROTATE, JITTER]}}}))
    assert fit("Ancestor", f"--config={tmp_path / 'own.yaml'}", "--name=file").code == 0
    saved = yaml.safe_load((tmp_path / "runs/test/file/seed0/config.yaml").read_text())
    rotate, jitter = saved["data"]["init_args"]["transforms"]
    assert (rotate["init_args"]["degrees"], jitter["init_args"]["brightness"]) == (15, 0.2)
    inner = "torchvision.transforms.v2.RandomInvert"
    nested = f"--data.transforms+={{class_path: RandomApply, init_args: {{transforms: [{inner}]}}}}"
    numbers = "--data.transforms+={class_path: ToDtype, init_args: {dtype: torch.float32, scale: true}}"
    assert fit("Ancestor", "--data.transforms+=RandomEqualize", nested, numbers, "--name=line").code == 0
    again = fit("Ancestor", f"--config={tmp_path / 'runs/test/line/seed0/config.yaml'}", "--name=again")
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("[RandomInvrt]", "data.transforms: class 'RandomInvrt' is unknown"),
        ("[{class_path: RandomRotation, init_args: {degrees: -5}}]", "must be positive"),
    ],
)
def test_mistakes_and_foreign_classes_end_with_one_sentence(fit, value, reason):
    result = fit("Ancestor", f"--data.transforms={value}")
    assert result.code == 2
    assert reason in result.sentence
    assert "Traceback" not in result.err
