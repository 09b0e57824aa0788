"""A mistake on the command line or in a configuration ends ``lgx fit`` with one sentence."""

import shutil

import pytest
import torch

from lgx.training.parsing import explain
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
    (["--model.lable_smoothing=0.1"], ("--model.lable_smoothing of Ancestor; did you mean --model.label_smoothing?",)),
    (["--model.stages=[1]"], ("unknown option --model.stages of Ancestor; see --model.help Ancestor",)),
    (["--trainer.callbacks+=EarlyStoping"], ("class 'EarlyStoping' is unknown; did you mean EarlyStopping?",)),
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
    (["--model.learning_rate=1"], ("--model.learning_rate of Ancestor; did you mean --model.optimizer.lr?",)),
    (["--model.batch_size=3"], ("--model.batch_size of Ancestor; did you mean --data.batch_size?",)),
    (["--model.optimizer.lrr=1"], ("--model.optimizer.lrr of AdamW; did you mean --model.optimizer.lr?",)),
    (["--model.optimizer=AdamWW"], ("model.optimizer: class 'AdamWW' is unknown; did you mean AdamW",)),
    (["--model=SGD"], ("model: class 'SGD' is unknown; see --model.help",)),
    (["--lerngene", "x"], ("unknown option --lerngene; see --help-all",)),
    (["--max_epochs=3"], ("unknown option --max_epochs; did you mean --trainer.max_epochs?",)),
    (["--trainer.max_epochs=a"], ("trainer.max_epochs: expected int or null, got a",)),
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


FILES = {
    "trainer: {max_epoch: 3}": "unknown option --trainer.max_epoch; did you mean --trainer.max_epochs",
    "modle: {arch: x}": "unknown option --modle.arch",
    "model: {class_path: lgx.methods.SWS, init_args: {stagse: [1]}}": "did you mean --model.stages?",
    "trainer: {callbacks: [{class_path: EarlyStopping, init_args: {patence: 3}}]}": "did you mean --trainer.callback",
    "- trainer": "run.yaml: holds no mapping from keys to values",
    f"trainer: {{devices: [{'0, ' * 4000}0]}}": "run.yaml: not valid YAML (a list of more than",
}


@pytest.mark.parametrize("text", FILES, ids=range(len(FILES)))
def test_a_mistake_in_a_file_is_named(images, tmp_path, text):
    (tmp_path / "run.yaml").write_text(text)
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", f"--config={tmp_path / 'run.yaml'}"))
    assert result.code == 2
    assert FILES[text] in result.sentence, result.sentence
    assert not (tmp_path / "runs").exists()


def test_an_unknown_option_names_a_class_of_others_without_an_import():
    value = "Problem with given class_path 'evil.Own': Option 'x' is not accepted"
    assert explain(f'Parser key "model": {value}') == "unknown option --model.x of Own; see --model.help Own"


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
