"""Options of data modules: what the command line shows and refuses, and what members of several sets take over."""

from functools import cache
from typing import Any

import pytest
from lightning.pytorch.cli import LightningArgumentParser

import data_modules
from data_modules import CIFAR10, CoLA, ImageDataModule, MultiTask, MultiText, PocketDecathlon
from lgx.errors import UserError

NAMES = """CIFAR10 ADE20K ImageNet ImageFolderData UnlabeledFolderData MultiLabelFolderData ShardedData PocketDecathlon
    Decathlon MultiTask CoLA MultiText TextFiles""".split()


@cache
def parser_of(name: str) -> LightningArgumentParser:
    parser = LightningArgumentParser(exit_on_error=False)
    parser.add_lightning_class_args(getattr(data_modules, name), "data")
    return parser


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_help_text(name: str) -> None:
    actions = parser_of(name)._actions
    assert [a.dest for a in actions if a.dest.startswith("data.") and len(str(a.help)) < 10] == []


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("batch_size", 0, "data.batch_size: expected at least 1, got 0"),
        ("num_workers", -1, "data.num_workers: expected at least 0, got -1"),
        ("limit_train", 0, "data.limit_train: expected at least 1 or null, got 0"),
        ("val_fraction", 1.0, "data.val_fraction: expected a share of at least 0 and below 1, got 1.0"),
        ("max_len", 2, "data.max_len: expected at least 3"),
        ("vocab_size", 1, "data.vocab_size: expected at least 2"),
        ("img_size", 0, "data.img_size: expected a whole number, 1 to"),
        ("in_chans", 2, "data.in_chans: expected 1"),
    ],
)
@pytest.mark.parametrize("kind", [CIFAR10, PocketDecathlon, CoLA])
def test_an_option_out_of_range_is_refused(kind: Any, option: str, value: float, sentence: str) -> None:
    if option in parser_of(kind.__name__).get_defaults().data:
        with pytest.raises(UserError) as caught:
            kind(**{option: value})
        assert str(caught.value).startswith(sentence)


def test_members_of_several_sets_take_over_the_options() -> None:
    options = {"img_size": 24, "augment": "crop_flip", "limit_train": 7}
    several = MultiTask(("cifar10", "imagenet"), "somewhere", **options)
    for member in several.sets.values():
        assert isinstance(member, ImageDataModule)
        assert (member.root, member.task.img_size, member.augment) == ("somewhere", 24, "crop_flip")
        assert (member.limit_train, member.val_fraction) == (7, 0.1)
    own = MultiTask(("cifar10", "dtd"), "somewhere", augment="crop_flip", augment_of={"dtd": "crop"})
    images = {name: member for name, member in own.sets.items() if isinstance(member, ImageDataModule)}
    assert {name: member.augment for name, member in images.items()} == {"cifar10": "crop_flip", "dtd": "crop"}
    with pytest.raises(UserError, match="augment_of: mnist is not a task of this run; tasks are cifar10, dtd"):
        MultiTask(("cifar10", "dtd"), "somewhere", augment_of={"mnist": "crop"})
    texts = MultiText(("cola", "rte"), vocab_size=99, max_len=12)
    assert {(one.task.vocab_size, one.task.max_len) for one in texts.sets.values()} == {(99, 12)}
