"""``lgx embed``: options and messages. What an embedding is, is tested with TAL and with the methods for texts."""

import shutil
from pathlib import Path

import pytest
import torch

from lgx.artifacts.task_embeddings import TaskEmbeddings
from tests.support.command_line import Result, lgx, ok, refusal


def embed(ancestor: object, data: object, out: Path, *options: object) -> Result:
    return lgx("embed", "--ancestor", ancestor, "--data", data, "--out", out, *options)


def test_controls_hold_as_many_embeddings_that_do_not_describe_their_tasks(ancestor_file, images, tmp_path):
    folders = [tmp_path / kind for kind in ("circle", "square", "stripe")]
    for folder in folders:
        shutil.copytree(images, folder, ignore=shutil.ignore_patterns(folder.name))  # without the class of this name
    found = {}
    for control in (None, "permuted", "random"):
        out = tmp_path / f"{control}.safetensors"
        given = ["--control", control] if control else []
        data = ",".join(map(str, folders))
        ok(embed(ancestor_file, data, out, *given))
        found[control] = TaskEmbeddings.load(out)
    real, permuted = found[None].tensors, found["permuted"].tensors
    assert [torch.equal(permuted[a], real[b]) for a, b in (("circle", "square"), ("stripe", "circle"))] == [True] * 2
    assert found["random"].tensors.keys() == real.keys()
    assert not any(torch.equal(one, other) for one in found["random"].tensors.values() for other in real.values())
    assert found["random"].ancestor == f"{ancestor_file} (random)"
    assert torch.equal(found["random"].tensors["circle"], found[None].control("random").tensors["circle"])


def test_a_limit_takes_examples_of_every_class_and_the_command_replaces_its_own_file(ancestor_file, images, tmp_path):
    tensors = {}
    out = tmp_path / "e.safetensors"
    for limit in (3, 12):
        done = embed(ancestor_file, images, out, "--limit", limit)
        assert f"shapes: {limit} images" in done.out, done.err
        tensors[limit] = TaskEmbeddings.load(out).tensors["shapes"]
    assert not torch.equal(tensors[3], tensors[12])


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
def test_wrong_options_end_with_one_sentence(ancestor_file, images, tmp_path, options, sentence):
    places = {"ancestor": ancestor_file, "shapes": images}
    out = tmp_path / "o.safetensors"
    done = refusal(embed(ancestor_file, images, out, *(option.format(**places) for option in options)))
    assert sentence.format(**places) in done
    assert not out.exists()
