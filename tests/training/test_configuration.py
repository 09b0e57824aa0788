"""The parser of training commands: what it accepts, builds, and takes from the source; whose mistake an error is."""

import pytest
import torch
import yaml

from experiments.reproduce.hours import sweep_hours
from lgx.architectures import HFArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import architecture_of
from lgx.core.rows import read_rows
from lgx.methods import Finetune
from lgx.planning import make_plan
from lgx.training.configuration import instantiate, make_parser, parse_configuration
from lgx.training.run_folder import place_of_run
from tests.support.command_line import ARCH, arguments, lgx, ok, refusal
from tests.support.runs import last_checkpoint
from tests.support.sweeps import config_of, write_sweep


def parsed(images, tmp_path, *options):
    parser = make_parser("fit")
    return parser, parse_configuration(parser, arguments("fit", "Finetune", images, tmp_path, *options)[1:])


def test_boolean_options_are_flags_that_a_file_sets_too(images, tmp_path):
    for words in ("--test-start", "--test_start true", "--test_start=false", "--test_start --no-test-start"):
        _, config = parsed(images, tmp_path, *words.split())
        assert (config.test_start, config.test_end) == ("=false" not in words and "--no" not in words, False), words
    (tmp_path / "flags.yaml").write_text(yaml.safe_dump({"test_end": True, "overwrite": True}))
    _, config = parsed(images, tmp_path, "--config", tmp_path / "flags.yaml", "--no_overwrite")
    assert (config.test_end, config.overwrite) == (True, False)


def test_method_and_data_module_are_built_without_a_trainer(images, tmp_path):
    parser, config = parsed(images, tmp_path, "--seed_everything=3")
    built = instantiate(parser, config)
    assert isinstance(built.model, Finetune)
    assert built.model.architecture.num_classes == built.data.num_classes == 3
    assert (built.data.seed, place_of_run(config)) == (3, tmp_path / "test/finetune/seed3")
    assert not isinstance(built.trainer, type(built.model))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model.initializer=LayerChoice", "--model.initializer.source=x", "--model.initializer.images=0"],
         "images: expected at least 1, got 0"),
        (["--trainer.callbacks+=ModelCheckpoint", "--trainer.callbacks.save_top_k=-3"],
         "the configuration contains a value that ModelCheckpoint refuses (MisconfigurationException: Invalid value "
         "for save_top_k=-3. Must be >= -1)"),
    ],
)  # fmt: skip
def test_the_mistake_behind_a_refused_class_is_reported(images, tmp_path, options, sentence):
    for command in ("fit", "plan"):
        words = arguments("fit", "Finetune", images, tmp_path / "runs", *options)[1:]
        result = refusal(lgx(command, *words))
        assert result.startswith(f"lgx {command}: {sentence}"), result
    assert not (tmp_path / "runs").exists()


def test_a_single_callback_needs_no_list_and_options_that_are_enumerations_are_saved_as_texts(fit, tmp_path):
    ok(fit("Ancestor", "--name=a", "--trainer.callbacks=Timer", "--trainer.callbacks.duration=00:01:00:00"))
    (callback,) = yaml.safe_load((tmp_path / "runs/test/a/seed0/config.yaml").read_text())["trainer"]["callbacks"]
    assert callback["init_args"]["interval"] == "step"


def test_a_value_may_name_a_file_with_configuration(images, tmp_path):
    (tmp_path / "data.yaml").write_text(f"class_path: ImageFolderData\ninit_args: {{root: {images}, img_size: 16}}\n")
    given = [word for word in arguments("fit", "Ancestor", images, tmp_path) if not word.startswith("--data")]
    assert "ImageFolderData" in ok(lgx(*given, "--data", tmp_path / "data.yaml", "--print_config")).out


def test_a_flag_of_a_command_takes_no_positional_argument(tmp_path):
    for words in (["--cost", tmp_path / "missing"], [tmp_path / "missing", "--no-cost"]):
        assert "missing: no such file or folder" in lgx("compare", *words).sentence


OWN = "depth=6,embed_dim=24,num_heads=3,patch_size=4,img_size=16"
SOURCE = "model.initializer.source"


def words(model, images, folder, *options):
    given = arguments("fit", model, images, folder / "runs", "--name=r", *options)
    return [word for word in given if word not in (f"--model.arch={ARCH}", "--data.img_size=16")]


def test_the_source_gives_what_is_left_out_and_changes_nothing_else(images, ancestor_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = "start"
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


def test_a_run_that_trains_a_whole_ancestor_asks_for_it(images, tmp_path):
    assert "model.ancestor: missing" in refusal(lgx(*words("Nested", images, tmp_path)))


def test_a_sweep_is_planned_with_the_sizes_of_its_starts(images, ancestor_file, tmp_path):
    config = config_of("Finetune", images, {"img_size": None}, model={"arch": None})
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    options = {"model.initializer": "Pretrained", SOURCE: ancestor_file}
    write_sweep(tmp_path, {"name": "f", "config": "run.yaml", "options": options})
    assert sweep_hours(tmp_path / "sweep.yaml", 100, 0.4).hours > 0


def test_models_of_timm_and_text_models_give_theirs_without_a_download(tmp_path):
    assert architecture_of("timm:deit_tiny_patch16_224").embed_dim == 192
    text = HFArchitecture(1, 8, 2, max_len=16, vocab_size=20)
    Learngene("ancestor", text, text.build().state_dict()).save(tmp_path / "a.learngene.safetensors")
    assert architecture_of(str(tmp_path / "a.learngene.safetensors")).spec() == text.spec()


@pytest.mark.parametrize("command", ["fit", "plan"])
def test_a_source_that_gives_nothing_is_named(images, tmp_path, command):
    for options, sentence in (
        ([], "model.arch: missing; name"),
        (["--model.initializer=Pretrained", f"--{SOURCE}=none"], f"not known from {SOURCE} (none: not a file"),
    ):
        assert sentence in refusal(lgx(command, *words("Finetune", images, tmp_path, *options)[1:]))
