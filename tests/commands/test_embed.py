"""``lgx embed``: options and messages. What an embedding is, is tested with TAL and with the methods for texts."""

import shutil
from pathlib import Path

import pytest
import torch

from lgx.artifacts.learngene import Learngene
from lgx.artifacts.task_embeddings import TaskEmbeddings
from tests.support.command_line import Result, lgx, ok, refusal
from tests.support.images import write_images
from tests.support.untrained_learngenes import BIG, write_ancestor


@pytest.fixture(scope="module")
def ancestor(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_ancestor(str(tmp_path_factory.mktemp("ancestor") / "big.learngene.safetensors"))


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images") / "shapes", {"train": 12, "val": 3, "test": 3})


def embed(ancestor: object, data: object, out: Path, *options: object) -> Result:
    return lgx("embed", "--ancestor", ancestor, "--data", data, "--out", out, *options)


def test_controls_hold_as_many_embeddings_that_do_not_describe_their_tasks(ancestor, shapes, tmp_path):
    folders = [shutil.copytree(shapes / "train" / kind, tmp_path / kind) for kind in ("circle", "square", "stripe")]
    found = {}
    for control in (None, "permuted", "random"):
        out = tmp_path / f"{control}.safetensors"
        given = ["--control", control] if control else []
        data = ",".join(map(str, folders))
        ok(embed(ancestor, data, out, *given))
        found[control] = TaskEmbeddings.load(out)
    real, permuted = found[None].tensors, found["permuted"].tensors
    assert [torch.equal(permuted[a], real[b]) for a, b in (("circle", "square"), ("stripe", "circle"))] == [True] * 2
    assert found["random"].tensors.keys() == real.keys()
    assert not any(torch.equal(one, other) for one in found["random"].tensors.values() for other in real.values())
    assert found["random"].ancestor == f"{ancestor} (random)"
    assert torch.equal(found["random"].tensors["circle"], found[None].control("random").tensors["circle"])


def test_a_limit_takes_examples_of_every_class(ancestor, shapes, tmp_path):
    tensors = {}
    for limit in (3, 12):
        out = tmp_path / f"{limit}.safetensors"
        done = embed(ancestor, shapes, out, "--limit", limit)
        assert f"shapes: {limit} images" in done.out, done.err
        tensors[limit] = TaskEmbeddings.load(out).tensors["shapes"]
    assert not torch.equal(tensors[3], tensors[12])


def test_a_folder_of_images_alone_is_read_like_class_folders(ancestor, shapes, tmp_path, caplog):
    folder = shutil.copytree(shapes / "train/circle", tmp_path / "mine")
    count = len(list(folder.iterdir()))
    for name in ("scan.svg", "._000.png", "notes.txt"):
        (folder / name).write_bytes(b"x")
    with caplog.at_level("INFO", "lightning.pytorch.utilities.rank_zero"):
        done = embed(ancestor, folder, tmp_path / "o.safetensors")
    assert done.code == 0, done.err
    assert f"embedded  mine: {count} images" in done.out
    assert f"{folder}: 2 files (.svg 1, .txt 1) were skipped; .jpg, .jpeg, .png" in caplog.text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--control", "random"], "--data: name at least one data set or folder, and two for --control"),
        (["--tokenizer", "gpt2_vocab"], "--tokenizer: ancestor {ancestor} reads images; leave it out"),
        (["--data", "{shapes},{shapes}"], "--data: two tasks are called shapes; embed them into two files"),
        (["--data", "cola"], "cola is a text set, not an image set"),
        (["--ancestor", "nowhere.learngene.safetensors"], "nowhere.learngene.safetensors: no such file"),
    ],
)
def test_wrong_options_end_with_one_sentence(ancestor, shapes, tmp_path, options, sentence):
    places = {"ancestor": ancestor, "shapes": shapes}
    out = tmp_path / "o.safetensors"
    done = refusal(embed(ancestor, shapes, out, *(option.format(**places) for option in options)))
    assert sentence.format(**places) in done
    assert not out.exists()


def test_a_gray_network_embeds_a_folder_of_images_alone(shapes, tmp_path):
    architecture = BIG.replace(in_chans=1)
    gray = tmp_path / "gray.learngene.safetensors"
    Learngene("ancestor", architecture, dict(architecture.build().state_dict())).save(gray)
    out = tmp_path / "o.safetensors"
    ok(embed(gray, shapes / "train/circle", out))
    assert TaskEmbeddings.load(out).width == BIG.embed_dim
