"""Options of data modules: what the command line shows and refuses, and what members of several sets take over."""

import os
from typing import Any

import pytest
from jsonargparse import ArgumentError
from lightning.pytorch.cli import LightningArgumentParser
from torchvision.transforms import v2

import data_modules
from data_modules import CIFAR10, CoLA, ImageDataModule, MultiTask, MultiText, PocketDecathlon
from data_modules.loading.loaders import MOST_WORKERS
from lgx.errors import UserError

WORKERS = f"{MOST_WORKERS} on this machine with {os.cpu_count()} cores"
COMMON: dict[str, Any] = {
    "root": "data", "batch_size": 128, "eval_batch_size": None, "num_workers": 0, "worker_timeout": 60,
    "val_fraction": 0.1, "split_seed": 0, "seed": 0, "limit_train": None,
}  # fmt: skip
IMAGES = COMMON | {
    "img_size": None, "in_chans": None, "value_range": None, "resize": "crop", "augment": "none", "transforms": None,
    "mean": None, "std": None,
    "cache_gib": 2.0, "labels": True, "balanced": False,
}  # fmt: skip
SHARDS = IMAGES | {"in_memory": True, "shuffle_buffer": 1000}
TEXTS = COMMON | {
    "batch_size": 32, "tokenizer": None, "source": "files", "max_len": 128, "vocab_size": 50257,
}  # fmt: skip
SEVERAL = {"tasks": None, "temperature": 2.0, "steps_per_epoch": None, "limit_eval": None}
OPTIONS: dict[str, dict[str, Any]] = {
    "CIFAR10": IMAGES,
    "ADE20K": IMAGES,
    "ImageNet": SHARDS | {"val_fraction": 0.01, "in_memory": False},
    "ImageFolderData": IMAGES | {"root": None, "name": None, "groups": None},
    "UnlabeledFolderData": IMAGES | {"root": None, "name": None, "labels": False, "groups": None},
    "ShardedData": SHARDS | {"name": None},
    "PocketDecathlon": SHARDS | {"task": "world"},
    "MiniDecathlon": SHARDS | {"task": "tiny_imagenet"},
    "Decathlon": IMAGES | {"task": "aircraft"},
    "MultiTask": IMAGES | SEVERAL | {"img_size": 224, "in_chans": 3, "augment_of": {}},
    "CoLA": TEXTS,
    "PocketReviews": TEXTS,
    "MultiText": TEXTS | SEVERAL,
}


def parser_of(name: str) -> LightningArgumentParser:
    parser = LightningArgumentParser(exit_on_error=False)
    parser.add_lightning_class_args(getattr(data_modules, name), "data")
    return parser


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_its_default_and_a_help_text(name: str) -> None:
    parser = parser_of(name)
    assert parser.get_defaults().data.as_dict() == OPTIONS[name]
    undocumented = [a.dest for a in parser._actions if a.dest.startswith("data.") and len(str(a.help)) < 10]
    assert not undocumented


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("CIFAR10", "--data.batch_size=many"),
        ("CIFAR10", "--data.augment=cut"),
        ("CIFAR10", "--data.batchsize=3"),
        ("ImageNet", "--data.val_fraction=true"),
        ("PocketDecathlon", "--data.task=cats"),
        ("PocketDecathlon", "--data.name=digits"),
        ("ShardedData", "--data.in_memory=maybe"),
        ("MultiTask", "--data.in_chans=null"),
        ("CoLA", "--data.source=net"),
        ("CoLA", "--data.img_size=32"),
    ],
)
def test_the_command_line_checks_options(name: str, option: str) -> None:
    with pytest.raises(ArgumentError, match=option.removeprefix("--data.").split("=")[0]):
        parser_of(name).parse_args([option])


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("batch_size", 0, "data.batch_size: expected at least 1, got 0"),
        ("eval_batch_size", 0, "data.eval_batch_size: expected at least 1 or null, got 0"),
        ("num_workers", -1, f"data.num_workers: expected 0 to {WORKERS}, got -1"),
        ("num_workers", 10**6, f"data.num_workers: expected 0 to {WORKERS}, got 1000000"),
        ("worker_timeout", -1, "data.worker_timeout: expected at least 0, got -1"),
        ("limit_train", 0, "data.limit_train: expected at least 1 or null, got 0"),
        ("val_fraction", 1.0, "data.val_fraction: expected a share of at least 0 and below 1, got 1.0"),
        ("max_len", 2, "data.max_len: expected at least 3"),
        ("vocab_size", 1, "data.vocab_size: expected at least 2"),
        ("img_size", 0, "data.img_size: expected a whole number, 1 to"),
        ("cache_gib", -1.0, "data.cache_gib: expected at least 0"),
        ("in_chans", 2, "data.in_chans: expected 1"),
    ],
)
@pytest.mark.parametrize("kind", [CIFAR10, PocketDecathlon, CoLA])
def test_an_option_out_of_range_is_refused(kind: Any, option: str, value: float, sentence: str) -> None:
    if option in parser_of(kind.__name__).get_defaults().data:
        with pytest.raises(UserError) as caught:
            kind(**{option: value})
        assert str(caught.value).startswith(sentence)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="batchsize"):
        PocketDecathlon(task="digits", batchsize=3)


def test_members_of_several_sets_take_over_the_options() -> None:
    several = MultiTask(
        ("cifar10", "imagenet"),
        "somewhere",
        img_size=24,
        augment="crop_flip",
        limit_train=7,
        transforms=[v2.RandomInvert()],
    )
    for member in several.sets.values():
        assert isinstance(member, ImageDataModule)
        assert (member.root, member.task.img_size, member.augment) == ("somewhere", 24, "crop_flip")
        assert (member.limit_train, member.val_fraction) == (7, 0.1)
        assert [type(own) for own in member.transforms] == [v2.RandomInvert]
    assert several.is_augmented
    own = MultiTask(("cifar10", "svhn"), "somewhere", augment="crop_flip", augment_of={"svhn": "crop"})
    images = {name: member for name, member in own.sets.items() if isinstance(member, ImageDataModule)}
    assert {name: member.augment for name, member in images.items()} == {"cifar10": "crop_flip", "svhn": "crop"}
    with pytest.raises(UserError, match="augment_of: mnist is no task of this run, which has cifar10, svhn"):
        MultiTask(("cifar10", "svhn"), "somewhere", augment_of={"mnist": "crop"})
    texts = MultiText(("cola", "rte"), vocab_size=99, max_len=12)
    assert {(one.task.vocab_size, one.task.max_len) for one in texts.sets.values()} == {(99, 12)}
