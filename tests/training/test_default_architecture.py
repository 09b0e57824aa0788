"""A run without ``model.arch`` and ``data.img_size`` takes both from the source that it trains."""

import pytest
import torch
import yaml

from lgx.architectures import GPT2Architecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import architecture_of
from lgx.core.rows import read_rows
from lgx.planning import make_plan, sweep_hours
from tests.support.command_line import ARCH, arguments, lgx, refusal
from tests.support.runs import last_checkpoint
from tests.support.sweeps import config_of, write_sweep

OWN = "depth=6,embed_dim=24,num_heads=3,patch_size=4,img_size=16"
SOURCE = "model.initializer.source"


def words(model, images, folder, *options):
    given = arguments("fit", model, images, folder / "runs", "--name=r", *options)
    return [word for word in given if word not in (f"--model.arch={ARCH}", "--data.img_size=16")]


@pytest.mark.parametrize("out", ["start", "start.safetensors"])
def test_the_source_gives_what_is_left_out_and_changes_nothing_else(images, ancestor_file, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    assert lgx("init", "--source", ancestor_file, "--arch", OWN, "--head=3", "--out", out).code == 0
    start = ["--model.initializer=Pretrained", "--model.head=new", f"--{SOURCE}={out}"]
    states, configs = [], []
    for more in ([f"--model.arch={OWN}", "--data.img_size", "16", "--data.in_chans=3"], []):
        assert lgx(*words("Finetune", images, tmp_path, *start, *more, "--overwrite")).code == 0
        states.append(last_checkpoint(run := tmp_path / "runs/test/r/seed0")["state_dict"])
        configs.append((run / "config.yaml").read_text())
    assert configs[0] == configs[1]
    assert all(torch.equal(states[0][name], states[1][name]) for name in {*states[0], *states[1]})
    assert lgx(*words("Finetune", images, tmp_path, *start, "--ckpt_path=last", "--trainer.max_epochs=2")).code == 0
    assert lgx("test", "--config", run / "config.yaml", "--ckpt_path=last").code == 0
    assert {row.epochs for row in read_rows(run / "results.csv") if row.split == "test"} == {2}


def test_an_ancestor_that_is_trained_as_a_whole_gives_its_sizes(images, ancestor_file, tmp_path):
    given = words("Nested", images, tmp_path, f"--model.ancestor={ancestor_file}", "--data.labels=false")
    assert make_plan(given[1:]).architecture == OWN
    assert lgx(*given).code == 0
    config = yaml.safe_load((tmp_path / "runs/test/r/seed0/config.yaml").read_text())
    assert (config["model"]["init_args"]["arch"], config["data"]["init_args"]["img_size"]) == (OWN, 16)


def test_a_sweep_is_planned_with_the_sizes_of_its_starts(images, ancestor_file, tmp_path):
    config = config_of("Finetune", images, {"img_size": None}, model={"arch": None})
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    options = {"model.initializer": "Pretrained", SOURCE: ancestor_file}
    write_sweep(tmp_path, {"name": "f", "config": "run.yaml", "options": options})
    assert sweep_hours(tmp_path / "sweep.yaml", 100, 0.4).hours > 0


def test_models_of_timm_and_text_models_give_theirs_without_a_download(tmp_path):
    assert architecture_of("timm:deit_tiny_patch16_224,img_size=64,patch_size=8").spec().endswith("8,img_size=64")
    text = GPT2Architecture(1, 8, 2, max_len=16, vocab_size=20)
    Learngene("ancestor", text, text.build().state_dict()).save(tmp_path / "a.learngene.safetensors")
    assert architecture_of(str(tmp_path / "a.learngene.safetensors")).spec() == text.spec()


@pytest.mark.parametrize("command", ["fit", "plan"])
def test_a_source_that_gives_nothing_is_named(images, tmp_path, command):
    for options, sentence in (
        ([], "model.arch: missing; name"),
        (["--model.initializer=Pretrained", f"--{SOURCE}=none"], f"not known from {SOURCE} (none: not a file"),
    ):
        assert sentence in refusal(lgx(command, *words("Finetune", images, tmp_path, *options)[1:]))
