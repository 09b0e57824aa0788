"""A learngene file round-trips, never runs code, and names no folder; the file that says what started a network."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safetensors_files import _TYPES, StartRecord, write_safetensors
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.initialization.expansion import take_layers
from lgx.methods import Pretrained
from tests.support.command_line import ARCH, lgx, ok

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


def test_damaged_files_are_named_and_not_written(learngene, tmp_path):
    path = tmp_path / "a.learngene.safetensors"
    with pytest.raises(UserError, match="no such file"):
        Learngene.load(path)
    with pytest.raises(UserError, match="w has values that are not finite"):
        replace(learngene, tensors={"w": torch.tensor(float("inf"))}).save(path)
    assert list(tmp_path.iterdir()) == []
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


def test_the_library_reads_tensors_of_every_type_that_is_written(tmp_path):
    tensors = {f"{kind}": torch.arange(6).reshape(2, 3).to(kind) for kind in _TYPES}
    tensors |= {"number": torch.tensor(3.0), "empty": torch.zeros(0, 2)}
    write_safetensors(tmp_path / "a.safetensors", tensors, {"é": "ü"})
    found = load_file(tmp_path / "a.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].tolist()) == (tensor.dtype, tensor.tolist()), name


def test_a_random_start_stays_training_from_scratch(tmp_path):
    assert lgx("init", "--arch", ARCH, "--num_classes", 3, "--out", tmp_path / "start").code == 0
    assert StartRecord.read(str(tmp_path / "start")) == StartRecord("random", "RandomStart")


@pytest.mark.parametrize(
    ("arch", "words"),
    [("depth=3,embed_dim=24,num_heads=3", "num_heads=2"), ("depth=4,embed_dim=24,num_heads=2", "has 3 layers")],
)
def test_a_start_gives_no_network_of_another_form(tmp_path, arch, words):
    out, small = tmp_path / "start", "patch_size=4,img_size=16"
    ok(lgx("init", "--arch", f"depth=3,embed_dim=24,num_heads=2,{small}", "--num_classes", 5, "--out", out))
    with pytest.raises(UserError, match=words):
        initialize(parse_architecture(f"{arch},{small}", num_classes=5), Pretrained(str(out)))
