"""The file of a family under any name, and its whole network, for every command."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.commands import api
from lgx.methods.nested.sizes import slice_text
from tests.support.command_line import arguments, lgx, ok, refusal


@pytest.fixture(scope="module")
def family(images, ancestor, tmp_path_factory):
    """The folder of a run."""
    runs = tmp_path_factory.mktemp("family")
    options = f"--model.ancestor={ancestor}", '--model.sizes=["depth=1,embed_dim=8,mlp_ratio=2"]', "--name=f"
    ok(lgx(*arguments("fit", "Family", images, runs, *options)))
    return runs / "test/f/seed0"


@pytest.mark.parametrize("name", ["flowers.safetensors", "family.bin", "family"])
def test_a_family_has_any_file_name(family, images, tmp_path, name):
    file, size = tmp_path / name, "depth=3,embed_dim=8"
    shutil.copy(family / f"final{SUFFIX}", file)
    head = api.load_family(family)[size].head.weight
    assert torch.equal(api.load_family(file)[size].head.weight, head)
    assert torch.equal(api.init(file, size).head.weight, head)
    assert load_pretrained(str(file)).architecture == Learngene.load(file).architecture
    for command in (["export"], ["init", "--source"]):
        ok(lgx(*command, file, "--arch", size, "--out", tmp_path / command[0]))
        assert torch.equal(load_file(tmp_path / command[0] / "model.safetensors")["head.weight"], head)
    assert "| val/acc |" in (tmp_path / "export" / "README.md").read_text()  # the file has facts of its own
    out = "--out", tmp_path / "p.csv"
    given = "predict", images / "val", "--arch", size, *out, "--force", "--model"
    assert ok(lgx(*given, family)).out == ok(lgx(*given, file)).out
    for other in (tmp_path / "export" / "model.safetensors", tmp_path / "export"):
        done = lgx("export", other, "--arch", size, "--out", tmp_path / "again")
        assert "is not a family" in refusal(done)


def test_the_whole_network_is_called_ancestor(family, images, tmp_path):
    learngene = Learngene.load(family / f"final{SUFFIX}")
    for choice in (["--arch", "ancestor"], ["--arch", "ancestor", "--params", "1G"]):
        ok(lgx("export", family, *choice, "--out", tmp_path / "whole", "--force"))
        stored = load_file(tmp_path / "whole" / "model.safetensors")
        assert {name: tensor.shape for name, tensor in stored.items()} == {
            name: tensor.shape for name, tensor in learngene.tensors.items()
        }
    networks = api.load_family(family)
    assert all(torch.equal(tensor, networks["ancestor"].state_dict()[name]) for name, tensor in stored.items())
    done = lgx("predict", images / "val", "--model", family, "--arch", "ancestor", "--out", tmp_path / "p.csv")
    score = networks.front[slice_text(learngene.architecture)]
    assert f"accuracy  {score:.1%}" in done.out
