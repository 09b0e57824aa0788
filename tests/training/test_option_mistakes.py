"""A mistake on the command line or in a configuration ends ``lgx fit`` with one sentence."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lgx.errors import UserError
from lgx.host import cache
from lgx.training import option_names
from lgx.training.configuration import make_parser
from lgx.training.option_names import check_names
from tests.support.command_line import arguments, lgx
from tests.support.images import write_images


def test_a_missing_test_split_is_reported_before_training(images, tmp_path):
    copy = tmp_path / "shapes"
    shutil.copytree(images, copy)
    shutil.rmtree(copy / "test")
    result = lgx(*arguments("fit", "Ancestor", copy, tmp_path / "runs", "--name=r", "--test_end=true"))
    assert result.code == 2
    assert "test" in result.sentence
    assert not list(tmp_path.rglob("*.ckpt"))


MISTAKES = [
    (["--model=Ancestorr"], ("Ancestorr", "did you mean Ancestor?")),
    (["--data=CIFR10"], ("CIFR10", "did you mean CIFAR10")),
    (["--model.lable_smoothing=0.1"], ("lable_smoothing", "did you mean --model.label_smoothing?")),
    (["--model.stages=[1]"], ("model: unknown option 'stages' of Ancestor", "--model.help Ancestor")),
    (["--trainer.callbacks+=EarlyStoping"], ("trainer.callbacks: class 'EarlyStoping' is unknown",)),
    (["--test_end=maybe"], ("--test_end", "maybe")),
    (["--trainer.max_epoch=1"], ("unknown option --trainer.max_epoch", "did you mean --trainer.max_epochs")),
    (["--trainer.max_epochs=abc"], ("trainer.max_epochs", "int", "abc")),
    (["--model.arch=7-Smal"], ("7-Smal", "7-Small")),
    (["--model.arch=depth=4,embed_dim=16,num_heads=2,patch_size=4,img_size=32"], ("img_size=16",)),
    (["--data.root=/nowhere/at/all"], ("/nowhere/at/all", "train")),
    (["--model.optimizer=os.system"], ("os.system is not allowed", "LGX_ALLOW_IMPORTS")),
    (["--model=subprocess.Popen"], ("subprocess.Popen is not allowed",)),
    (["--trainer.accelerator=gpu"], ("gpu",)),
    (["--ckpt_path=/nowhere.ckpt"], ("/nowhere.ckpt", "no such checkpoint")),
    (["--ckpt_path=https://example.org/x.ckpt"], ("only local files",)),
    (["--model=SWS", "--model.ancestor=none.learngene.safetensors"], ("none.learngene.safetensors", "no such file")),
    (["--model=Distill", "--model.alpha=2"], ("model.alpha", "[0, 1]")),
    (["--model=Finetune", "--model.initializer=Pretraned"], ("Pretraned", "did you mean Pretrained?")),
    (["--data.batch_size=1000"], ("batch_size", "48")),
    (["--config=/nowhere.yaml"], ("/nowhere.yaml",)),
    (["--data.batch_size=5", "--model.mixup=0.8"], ("even", "5")),
    (["--data.num_workers=-1"], ("num_workers", "-1")),
    (["--data.eval_batch_size=-1"], ("eval_batch_size", "-1")),
    (["--data.augment=foo"], ("data", "crop_flip", "foo")),
    (["--model.learning_rate=1"], ("unknown option --model.learning_rate; did you mean --model.optimizer.lr?",)),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=[m[0][-1][:40] for m in MISTAKES])
def test_a_mistake_gets_one_sentence_and_no_traceback(images, tmp_path, options, words):
    if options == ["--trainer.accelerator=gpu"] and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *options))
    assert result.code == 2
    assert "Traceback" not in result.err
    assert "NestedArg" not in result.sentence
    assert result.sentence.startswith("lgx fit: ")
    assert all(word in result.sentence for word in words), result.sentence
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_misspelled_key_in_a_file_is_named(images, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("trainer:\n  max_epoch: 3\n")
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", f"--config={config}"))
    assert result.code == 2
    assert "max_epoch" in result.sentence


@pytest.mark.parametrize("group", ["model", "data"])
def test_a_missing_model_or_data_option_is_named(images, tmp_path, group):
    args = [a for a in arguments("fit", "Ancestor", images, tmp_path) if not a.startswith((f"--{group}", "Ancestor"))]
    result = lgx(*(args if group == "model" else [*args[:1], "--model=Ancestor", *args[2:]]))
    assert result.code == 2
    assert f"--{group}" in result.sentence or group in result.sentence
    assert "Traceback" not in result.err


def test_a_later_file_wins_over_an_earlier_one(images, tmp_path):
    for name, epochs in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.yaml").write_text(f"trainer:\n  max_epochs: {epochs}\n")
    base = [a for a in arguments("fit", "Ancestor", images, tmp_path / "runs", "--name=c") if "max_epochs" not in a]
    assert lgx(*base, f"--config={tmp_path}/one.yaml", f"--config={tmp_path}/two.yaml").code == 0
    assert "max_epochs: 2" in (tmp_path / "runs/test/c/seed0/config.yaml").read_text()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_truncated_image_is_named(tmp_path, workers):
    images = write_images(tmp_path / "shapes", {"train": 24, "val": 3, "test": 3})
    broken = images / "train" / "circle" / "000.png"
    broken.write_bytes(broken.read_bytes()[:60])
    options = [f"--data.num_workers={workers}", "--data.batch_size=24"]
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *options))
    assert result.code == 2
    assert "000.png" in result.sentence
    assert "Traceback" not in result.sentence


QUICK = [
    (["--trainer.max_epoch=1"], "unknown option --trainer.max_epoch; did you mean --trainer.max_epochs"),
    (["--lerngene", "x"], "unknown option --lerngene;"),
    (["--model.lable_smoothing=0.1"], "unknown option --model.lable_smoothing; did you mean --model.label_smoothing?"),
    (["--model.batch_size=3"], "unknown option --model.batch_size; did you mean --data.batch_size?"),
    (["--model=Ancestorr"], "model: class 'Ancestorr' is unknown; did you mean Ancestor?"),
    (["--config=typo.yaml"], "typo.yaml: unknown option --trainer.max_epoch; did you mean --trainer.max_epochs"),
    (["--config=class.yaml"], "class.yaml: unknown option --model.stagse; did you mean --model.stages"),
    (["--config=absent.yaml"], "absent.yaml"),
]


@pytest.fixture(scope="module")
def collected():
    """Names of all options of ``lgx fit``."""
    return make_parser("fit").names()


@pytest.fixture
def known(images, collected, tmp_path, monkeypatch):
    """Names as the first command keeps them, and configuration files with mistakes."""
    (tmp_path / "typo.yaml").write_text("trainer: {max_epoch: 3}\n")
    (tmp_path / "class.yaml").write_text("model: {class_path: lgx.methods.SWS, init_args: {stagse: [1, 1]}}\n")
    cache.remember("options-fit", collected)
    monkeypatch.chdir(tmp_path)
    return arguments("fit", "Ancestor", images, tmp_path / "runs")


@pytest.mark.parametrize(("options", "sentence"), QUICK, ids=[quick[0][0] for quick in QUICK])
def test_misspelt_names_are_refused_before_torch_is_imported(known, options, sentence):
    code = (
        "import sys; from lgx.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules, 'lightning' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, *known, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert done.stdout == "False False\n"


ACCEPTED = [
    "--model.optimizer.lr=0.1", "--model.init_args.dropout=0.1", "--trainer.callbacks+=EarlyStopping", "--overwrite",
    "--trainer.callbacks.monitor=val/acc", "--test-end", "--no-test-end", "--no_overwrite", "--print_config=skip_null",
    "--model.help", "--trainer.strategy.help=ddp", "--checkpoint.save_top_k=2", "-h",
    "--data.init_args.val_fraction=0.2", "--model.initializer.source=x", "--config=fine.yaml", "--model=my.own.SWS",
]  # fmt: skip


@pytest.mark.parametrize("option", ACCEPTED)
def test_what_the_parser_may_know_is_left_to_it(known, option):
    Path("fine.yaml").write_text("model:\n  class_path: SWS\n  init_args: {stages: [1], optimizer: {lr: 1}}\n"
                                 "trainer: {callbacks+: []}\nseed_everything: 3\nmodel.arch: x\n")  # fmt: skip
    check_names("fit", [*known[1:], option])


def test_a_file_behind_a_flag_is_checked_and_a_class_may_stand_after_its_options(known, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("modle: {}\n")
    with pytest.raises(UserError, match=r"run\.yaml: unknown option --modle"):
        check_names("fit", ["--overwrite", "-c", str(file)])
    file.write_text("model: {init_args: {foo: 1}, class_path: other.Method}\n")
    check_names("fit", ["-c", str(file)])


def test_names_are_collected_again_after_a_change_of_the_code(known, collected, monkeypatch):
    monkeypatch.setattr(cache, "_state", lambda admitted: "another")
    check_names("fit", ["--lerngene", "x"])  # nothing is known
    cache.remember("options-fit", collected)
    with pytest.raises(UserError, match="unknown option --lerngene"):
        check_names("fit", ["--lerngene", "x"])


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "blocked"))
    cache.remember("x", 1)
    assert cache.recall("x") is None


@pytest.mark.parametrize("file", ["pipe", "large.yaml"])
def test_files_are_bounded_also_where_no_names_can_be_kept(tmp_path, monkeypatch, file):
    monkeypatch.setenv("LGX_CACHE", "/proc/nope")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.yaml").write_text(f"trainer: {{devices: [{'0, ' * 4000}0]}}")
    with pytest.raises(UserError, match=file):
        check_names("fit", [f"--config={tmp_path / file}"])


def test_old_facts_that_cannot_be_removed_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    (tmp_path / "facts" / f"x-{'0' * 16}.json").mkdir(parents=True)
    cache.remember("x", 1)
    cache.remember("x-y", 2)
    cache.remember("x", 3)
    assert cache.recall("x-y") == 2


def test_changed_methods_of_other_packages_are_left_to_the_parser(known, monkeypatch):
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "")
    with pytest.raises(UserError, match="class 'Halves' is unknown"):
        check_names("fit", ["--model=Halves"])
    monkeypatch.setattr(option_names, "declared_methods", lambda: ["halves=lgx_halves:SPECS"])
    check_names("fit", ["--model=Halves", "--model.beta=1"])
