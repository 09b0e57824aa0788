"""A learngene file round-trips, describes itself, and never runs code."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.initialization.expansion import take_layers

SMALL = ViTArchitecture(4, 16, 2, patch_size=4, img_size=8, num_classes=3, stages=(2, 2))


@pytest.fixture
def learngene() -> Learngene:
    state = SMALL.build().state_dict()
    return Learngene("sws", SMALL, take_layers(state, [0, 2]), "teacher", {"name": "shapes"}, {"val/acc": 0.5})


def test_file_round_trips(learngene, tmp_path):
    path = tmp_path / "deep" / "a.learngene.safetensors"
    learngene.save(path)
    loaded = Learngene.load(path)
    assert {k: v for k, v in vars(loaded).items() if k != "tensors"} == {
        k: v for k, v in vars(learngene).items() if k != "tensors"
    }
    assert all(torch.equal(loaded.tensors[k], v) for k, v in learngene.tensors.items())
    assert loaded.num_layers == 2
    assert loaded.num_parameters == SMALL.count_parameters()
    assert list(tmp_path.rglob("*.tmp")) == []


def test_a_file_in_half_precision_is_read_in_single_precision(learngene, tmp_path):
    path = tmp_path / "a.learngene.safetensors"
    replace(learngene, tensors={name: tensor.half() for name, tensor in learngene.tensors.items()}).save(path)
    assert {tensor.dtype for tensor in Learngene.load(path).tensors.values()} == {torch.float32}


def test_take_layers_copies_and_keeps_the_rest():
    state = SMALL.replace(stages=None).build().state_dict()
    taken = take_layers(state, [3, 1, 1])
    assert torch.equal(taken["blocks.0.mlp.fc1.weight"], state["blocks.3.mlp.fc1.weight"])
    assert torch.equal(taken["blocks.2.mlp.fc1.weight"], state["blocks.1.mlp.fc1.weight"])
    assert taken["blocks.1.mlp.fc1.weight"].data_ptr() != taken["blocks.2.mlp.fc1.weight"].data_ptr()
    assert "blocks.3.mlp.fc1.weight" not in taken
    assert torch.equal(taken["head.weight"], state["head.weight"])


def test_damaged_files_are_named(learngene, tmp_path):
    path = tmp_path / "a.learngene.safetensors"
    with pytest.raises(UserError, match="no such file"):
        Learngene.load(path)
    learngene.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="not an intact safetensors file"):
        Learngene.load(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(UserError, match="without the metadata 'lgx'"):
        Learngene.load(path)
    for about in ("{", json.dumps({"format": 1}), json.dumps([1]), json.dumps({"format": 1, "method": "sws"})):
        save_file({"x": torch.zeros(1)}, path, metadata={"lgx": about})
        with pytest.raises(UserError, match="damaged"):
            Learngene.load(path)


def test_a_file_of_a_newer_format_is_refused(learngene, tmp_path):
    path = tmp_path / "a.learngene.safetensors"
    save_file({"x": torch.zeros(1)}, path, metadata={"lgx": json.dumps({"format": 99, "lgx_version": "9.9"})})
    with pytest.raises(UserError, match=r"written by lgx 9\.9, newer than this"):
        Learngene.load(path)
