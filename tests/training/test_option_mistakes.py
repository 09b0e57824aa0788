"""A mistake on the command line or in a configuration ends ``lgx fit`` with one sentence."""

import shutil

import pytest
import torch

from lgx.training.configuration import make_parser, parse_configuration
from tests.support.command_line import arguments, lgx, ok, refusal


def test_a_missing_test_split_is_reported_before_training(images, tmp_path):
    copy = tmp_path / "shapes"
    shutil.copytree(images, copy)
    shutil.rmtree(copy / "test")
    assert "test" in refusal(lgx(*arguments("fit", "Ancestor", copy, tmp_path / "runs", "--name=r", "--test_end=true")))
    assert not list(tmp_path.rglob("*.ckpt"))


MISTAKES = {
    "--trainer.callbacks+=EarlyStoping": "class 'EarlyStoping' is unknown",
    "--trainer.logger=[CSVLogger,WandLogger]": "trainer.logger: ",
    "--max_epochs=3": "--max_epochs: there is no such option; did you mean --trainer.max_epochs?",
    "--model.num_classes=11": "model.num_classes: follows the data; leave it out",
    "--model=Finetune --model.initializer.source=x": "model.initializer: give the class before its options",
    "--trainer.logger=true --trainer.logger.save_dir=x": "trainer.logger: give the class before its options",
    "--model.scheduler=CosineAnnealingLR --model.scheduler.T_max=x": "model.scheduler.T_max: ",
    "--model.optimizer.lrr=1": "model.optimizer: Option 'lrr' is not accepted",
    "--trainer.logger=WandbLogger --trainer.logger.proyect=x": "trainer.logger: Option 'proyect' is not",
    "--model=subprocess.Popen": "Importing 'subprocess.Popen' is not allowed",
    "--trainer.callbacks+=EarlyStopping --trainer.callbacks.patence=1": "trainer.callbacks: Option 'patence'",
    "--trainer.max_epochs=abc": "trainer.max_epochs: Expected a <class 'int'>, got abc",
    f"--seed_everything={2**32}": "--seed_everything: a seed is a whole number from 0 to 4294967295",
    "--name=../../evil": "--name: '../../evil' is not the name of a subfolder",
    "--experiment=/tmp/evil": "--experiment: '/tmp/evil' is not the name of a subfolder",
    "--checkpoint.filename=../../evil": "checkpoint.filename: '../../evil' is not the name of a subfolder",
    "--trainer.callbacks+=ModelCheckpoint --trainer.callbacks.filename=../../../evil": (
        "trainer.callbacks.filename: '../../../evil' is not the name of a subfolder"
    ),
    "--trainer.callbacks+=StochasticWeightAveraging --trainer.callbacks.swa_lrs=0.01": "give EMAWeightAveraging",
    "--model.scheduler=StepLR --model.scheduler.step_size=0": "expected at least 1 update",
    "--model.scheduler=LRScheduler": "is only the base class",
    "--model.optimizer.lr=nan": "model.optimizer.lr: Expected a <class 'float'>, got nan",
    "--early_stop=0": "early_stop: Not of type PositiveInt",
    "--data.root=/nowhere/at/all": "/nowhere/at/all",
    "--trainer.accelerator=gpu": "gpu",
    "--ckpt_path=/nowhere.ckpt": "/nowhere.ckpt: no such checkpoint",
}
LATER = {
    "--model.arch=depth=4,embed_dim=16,num_heads=2,patch_size=4,img_size=32": "img_size=16",
    "--model=SWS --model.stages=[2,2] --model.ancestor=none.safetensors": "none.safetensors: no such file",
    "--model.scheduler=OneCycleLR --model.scheduler.max_lr=0.1 --model.layer_decay=0.5": "OneCycleLR sets one rate",
    "--data.batch_size=1000": "48",
    "--data.batch_size=5 --model.mixup=0.8": "even",
}
"""Mistakes that a run finds when it has its folder."""


@pytest.mark.parametrize("words", [*MISTAKES, *LATER])
def test_a_mistake_gets_one_sentence_and_leaves_no_run(images, tmp_path, words):
    if "accelerator=gpu" in words and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    sentence = refusal(lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *words.split(" "))))
    assert sentence.startswith("lgx fit: ")
    assert (MISTAKES | LATER)[words] in sentence, sentence
    assert list(tmp_path.rglob("*.ckpt" if words in LATER else "*")) == []


FILES = {
    "trainer: {max_epoch: 3}": "run.yaml: trainer.max_epoch: there is no such option; did you mean trainer.max_epochs",
    "modle: {arch: x}": "run.yaml: modle: there is no such option; did you mean model?",
    "model: {class_path: lgx.methods.SWS, init_args: {stagse: [1]}}": "run.yaml: model: Option 'stagse'",
    "trainer: {callbacks: [{class_path: EarlyStopping, init_args: {patence: 3}}]}": "run.yaml: trainer.callbacks: ",
    "data: {class_path: CIFAR10, init_args: {seed: 5}}": "run.yaml: data.seed: follows --seed_everything; leave it out",
    "- trainer": "run.yaml: holds no mapping from keys to values",
}


@pytest.mark.parametrize("text", FILES, ids=range(len(FILES)))
def test_a_mistake_in_a_file_is_named(images, tmp_path, text):
    (tmp_path / "run.yaml").write_text(text)
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", f"--config={tmp_path / 'run.yaml'}"))
    assert result.code == 2
    assert FILES[text] in result.sentence, result.sentence
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("group", ["model", "data"])
def test_a_missing_model_or_data_option_is_named(images, tmp_path, group):
    args = [a for a in arguments("fit", "Ancestor", images, tmp_path) if not a.startswith((f"--{group}", "Ancestor"))]
    sentence = refusal(lgx(*(args if group == "model" else [*args[:1], "--model=Ancestor", *args[2:]])))
    assert f"--{group}" in sentence or group in sentence


@pytest.mark.parametrize("text", ["run #5", "007", "1e3", "yes"])
def test_a_text_is_the_text_that_was_typed_and_is_saved(images, tmp_path, text):
    words = arguments("fit", "Ancestor", images, tmp_path, f"--name={text}", "--data.name", text, "--model.label", text)
    (tmp_path / "run.yaml").write_text(ok(lgx(*words, "--print_config")).out)
    again = parse_configuration(make_parser("fit"), ["--config", str(tmp_path / "run.yaml")])
    assert [again.name, again.data.init_args.name, again.model.init_args.label] == [text] * 3


STOP = ["--trainer.callbacks+=EarlyStopping"]
WATCHED = {
    "val/acc with mode min, but max": [*STOP, "--trainer.callbacks.monitor=val/acc"],
    "EarlyStopping refuses this run": [*STOP, "--trainer.callbacks.monitor=val/accc", "--trainer.callbacks.mode=max"],
}


@pytest.mark.parametrize("words", WATCHED)
def test_a_callback_that_watches_the_wrong_value_is_refused(fit, words):
    done = fit("Ancestor", *WATCHED[words], "--trainer.max_epochs=3")
    assert (done.code, words in done.sentence) == (2, True), done.err


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_limit_that_leaves_out_tasks_is_refused(images, tmp_path, split):
    command = arguments("fit", "Ancestor", images, tmp_path, f"--trainer.limit_{split}_batches=1", "--test_end")
    kept = [word for word in command if not word.startswith("--data")]
    for name in ("one", "two"):
        shutil.copytree(images, tmp_path / name)
    data = ["--data=MultiTask", f"--data.tasks=[{tmp_path}/one,{tmp_path}/two]", "--data.img_size=16"]
    done = lgx(*kept, *data)
    assert (done.code, f"trainer.limit_{split}_batches: would leave out whole tasks" in done.sentence) == (2, True), (
        done.err
    )
    assert "epoch " not in done.out
    whole = [word.replace("batches=1", "batches=100") for word in kept]
    assert lgx(*whole, *data).code == lgx(*kept, *data, "--trainer.fast_dev_run=true").code == 0
