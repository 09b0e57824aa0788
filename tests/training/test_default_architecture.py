"""A run without ``model.arch`` and ``data.img_size`` takes both from the source that it trains."""

import json

import pytest
import torch
import yaml

from lgx.architectures import GPT2Architecture, parse_architecture
from lgx.artifacts.export import write_descendant
from lgx.artifacts.pretrained import architecture_of
from lgx.core.rows import read_rows
from lgx.planning import make_plan
from tests.support.command_line import ARCH, arguments, lgx
from tests.support.runs import last_checkpoint


@pytest.fixture
def start(ancestor_file, tmp_path):
    """What `lgx init` writes, of fewer layers than its ancestor, and the options of a run that starts from it."""
    arch, out = ARCH.replace("depth=4", "depth=2"), tmp_path / "start"
    words = ["--source", ancestor_file, "--method=weight_selection", "--head=3", "--arch", arch, "--out", out]
    assert lgx("init", *words).code == 0
    return ["--model.initializer=Pretrained", f"--model.initializer.source={out}", "--model.head=new"], arch


def command(name, model, images, tmp_path, *options):
    words = arguments(name, model, images, tmp_path / "runs", *options)
    return [word for word in words if word not in (f"--model.arch={ARCH}", "--data.img_size=16")]


def test_the_source_gives_what_is_left_out_and_changes_nothing_else(images, start, tmp_path):
    options, arch = start
    for name, given in (("short", []), ("long", [f"--model.arch={arch}", "--data.img_size=16"])):
        done = lgx(*command("fit", "Finetune", images, tmp_path, *options, *given, f"--name={name}"))
        assert done.code == 0, done.err
    short, long = (tmp_path / "runs/test" / name / "seed0" for name in ("short", "long"))
    weights, same = last_checkpoint(short)["state_dict"], last_checkpoint(long)["state_dict"]
    assert all(torch.equal(weights[name], same[name]) for name in {*weights, *same})
    config = yaml.safe_load((short / "config.yaml").read_text())
    assert parse_architecture(config["model"]["init_args"]["arch"]) == parse_architecture(arch)
    assert [config["data"]["init_args"][key] for key in ("img_size", "in_chans")] == [16, 3]
    more = command("fit", "Finetune", images, tmp_path, *options, "--name=short", "--ckpt_path=last")
    assert lgx(*more, "--trainer.max_epochs=2").code == 0
    assert lgx("test", "--config", short / "config.yaml", "--ckpt_path=last").code == 0
    assert {row.epochs for row in read_rows(short / "results.csv") if row.split == "test"} == {2}


def test_an_ancestor_that_is_trained_as_a_whole_gives_its_sizes(images, ancestor_file, tmp_path):
    words = command("fit", "Nested", images, tmp_path, f"--model.ancestor={ancestor_file}", "--name=n")
    assert make_plan([*words[1:], "--samples=24"]).architecture == ARCH
    assert lgx(*words).code == 0
    config = yaml.safe_load((tmp_path / "runs/test/n/seed0/config.yaml").read_text())
    assert parse_architecture(config["model"]["init_args"]["arch"]) == parse_architecture(ARCH)
