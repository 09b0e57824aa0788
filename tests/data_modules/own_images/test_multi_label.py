"""Images with several labels: the table, its splits, and mistakes in it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data_modules import MultiLabelFolderData
from data_modules.own_images.label_table import read_label_table
from lgx.errors import UserError
from tests.support.label_tables import SHAPES, write_labeled


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labeled(tmp_path_factory.mktemp("labels") / "shapes")


def module(root: Path, **options: Any) -> MultiLabelFolderData:
    return MultiLabelFolderData(root=str(root), **{"img_size": 16, "batch_size": 8, "val_fraction": 0.25} | options)


def test_both_forms_of_the_table_say_the_same(root: Path, tmp_path: Path) -> None:
    other = write_labeled(tmp_path / "columns", columns=True)
    one, two = read_label_table(root / "labels.csv"), read_label_table(other / "labels.csv")
    assert one.classes == two.classes == SHAPES
    assert np.array_equal(one.labels, two.labels)
    assert one.splits == two.splits
    assert not one.labels[0].any(), "an empty cell means no label"


def test_batches_have_the_labels_of_their_images(root: Path) -> None:
    made = module(root)
    task = made.task
    assert (task.kind, task.metric, task.num_classes, task.class_names) == ("multilabel", "map", 3, SHAPES)
    made.setup("test")
    table = read_label_table(root / "labels.csv")
    batches = list(made.predict_dataloader())
    found = torch.cat([batch.targets for batch in batches])
    assert found.dtype == torch.int64
    assert np.array_equal(found.numpy(), table.images("test", "shapes test").labels)
    assert batches[0].inputs.shape == (16, 3, 16, 16)
    for augment in ("none", "crop_flip", "resized_crop"):
        train = module(root, augment=augment)
        train.setup("fit")
        batch = next(iter(train.train_dataloader()))
        assert (batch.inputs.dtype, batch.targets.shape, batch.targets.dtype) == (torch.float32, (8, 3), torch.int64)


def test_val_is_a_seeded_draw_with_all_labels_and_limits_are_nested(root: Path) -> None:
    def files(split: Any, **options: Any) -> set[str]:
        examples: Any = module(root, **options).read(split)
        return {str(examples.path(index)) for index in range(len(examples))}

    train, val, test = (files(split) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (48, 16, 24)
    assert not (train & val)
    assert not (train & test)
    assert not (val & test)
    assert files("val") == val != files("val", split_seed=1)
    assert module(root).read("val").labels.any(axis=0).all()
    limited = []
    for limit in (5, 20):
        made = module(root, limit_train=limit)
        made.setup("fit")
        examples: Any = made.examples("train")
        assert made.task.num_train == limit
        limited.append({str(examples.path(index)) for index in range(limit)})
    assert limited[0] < limited[1] < train


MISTAKES: dict[str, tuple[str, str]] = {
    "no header": ("images/000.png,bar\n", "line 1: the header is .*; expected file"),
    "cells": ("file,labels\nimages/000.png,bar,dot\n", r"line 2: 3 cells, expected 2 \(file, labels\)"),
    "quote": ('file,labels\n"' + 140_000 * "x", "not a table of cells that are separated by commas"),
    "value": ("file,bar,dot\nimages/000.png,1,-2\n", "line 2: dot is '-2', expected 0, 1, or -1 for unknown"),
    "unknown": ("file,labels,split\na.png,bar;dot,train\nb.png,dott,test\n",
                r"line 3: the label 'dott' is not among the labels of the training images"),
    "twice": ("file,labels\na.png,bar\na.png,dot\n", "names a.png several times; give one row per image"),
    "missing": ("file,labels\nimages/000.png,bar;dot\nimages/no.png,bar\n",
                r"1 of 2 train images are missing, first .*images/no\.png; restore them or remove their rows"),
    "absent": ("file,bar,dot\nimages/000.png,1,0\nimages/001.png,1,0\n", "no training image has the label dot"),
    "no test": ("\n".join(["file,labels", *(f"images/{k:03d}.png,bar;dot" for k in range(8))]),
                "has no test images; add a column split"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_the_table_name_file_and_line(root: Path, tmp_path: Path, name: str) -> None:
    text, sentence = MISTAKES[name]
    (tmp_path / "images").symlink_to(root / "images")
    (tmp_path / "labels.csv").write_text(text)

    def read() -> None:
        made = module(tmp_path)
        made.setup("fit")
        made.setup("test")

    with pytest.raises(UserError, match=sentence) as refused:
        read()
    assert str(tmp_path / "labels.csv") in str(refused.value)
