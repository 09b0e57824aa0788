"""Bugs that were mended, each with the test that would have caught it."""

import json
import shlex
import sys

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from data_modules.samplers import ResumableLoader, TrainBatchSampler, limited
from data_modules.transforms import eval_transform
from lgx.artifacts.learngene import load_checkpoint
from lgx.core.batch import Task
from lgx.core.files import atomic_path
from lgx.core.rows import read_rows
from lgx.errors import UserError
from tests.support.command_line import ARCH, arguments, lgx, python


def test_init_never_replaces_a_folder_with_other_things_or_the_present_one(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    for name in ("config.json", "gold.txt"):
        (tmp_path / "mine" / name).write_text("{}")
    monkeypatch.chdir(tmp_path / "mine")
    for out in (".", "..", str(tmp_path / "mine"), str(tmp_path)):
        result = lgx("init", "--arch", ARCH, "--out", out)
        assert result.code == 2
        assert "no model folder" in result.sentence
    assert (tmp_path / "mine" / "gold.txt").exists()


def test_a_folder_that_cannot_be_replaced_stays(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a").write_text("old")

    def fail():
        with atomic_path(tmp_path / "model") as temporary:
            temporary.mkdir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (tmp_path / "model" / "a").read_text() == "old"
    with atomic_path(tmp_path / "model") as temporary:
        temporary.mkdir()
        (temporary / "b").write_text("new")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["b"]


def test_a_checkpoint_of_another_method_is_refused(fit, ancestor):
    result = fit("Finetune", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", command="test")
    assert result.code == 2
    assert "holds a network of method ancestor, but this run is of method random" in result.sentence


def test_a_checkpoint_within_the_first_epoch_is_not_untrained(fit, tmp_path):
    assert fit("Ancestor", "--name=v", "--trainer.val_check_interval=1", "--save_every=1").code == 0
    best = load_checkpoint(tmp_path / "runs/test/v/seed0/checkpoints/best.ckpt")
    assert best["lgx"]["epochs"] == 1


@pytest.mark.parametrize(("limit", "expected"), [(None, (12, 12)), (5, (5, 5)), (0.5, (12, 6)), (50, (12, 12))])
def test_limits_are_applied_once(limit, expected):
    assert limited(12, limit) == expected


def test_a_share_of_the_batches_is_trained_with_a_whole_schedule(fit, tmp_path):
    options = ["--name=l", "--data.batch_size=4", "--trainer.limit_train_batches=0.5", "--trainer.max_epochs=2"]
    result = fit("Ancestor", *options)
    assert "steps      12" in result.out
    checkpoint = load_checkpoint(tmp_path / "runs/test/l/seed0/checkpoints/last.ckpt")
    assert checkpoint["global_step"] == 12
    assert checkpoint["lr_schedulers"][0]["_last_lr"] == pytest.approx([0, 0], abs=1e-9)


def test_the_schedule_ends_with_whichever_limit_comes_first(fit):
    assert "steps      3," in fit("Ancestor", "--name=s", "--trainer.max_steps=1000").out
    result = fit("Ancestor", "--name=t", "--trainer.max_steps=2", "--trainer.max_epochs=9")
    assert "steps      2," in result.out
    assert "--ckpt_path last" in result.out  # no validation, so no best checkpoint


def test_a_run_without_an_end_needs_one_for_a_schedule_only(fit):
    endless = ["--trainer.max_epochs=-1", "--trainer.max_time=00:00:00:01"]
    assert "a schedule needs to know" in fit("Ancestor", "--name=e", *endless).sentence
    result = fit("Ancestor", "--name=f", "--model.scheduler=null", *endless)
    assert result.code == 0, result.err
    assert "until stopped" in result.out


def test_bench_refuses_what_it_cannot_time():
    for option in ("--batch", "--repeats"):
        assert "at least 1" in lgx("bench", option, 0).sentence


def test_sixteen_bit_grey_keeps_its_values():
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    for channels in (1, 3):
        task = Task("x", 2, in_chans=channels, img_size=8, mean=(0.0,) * channels, std=(1.0,) * channels)
        tensor = eval_transform(task)(Image.fromarray(values))
        np.testing.assert_allclose(tensor[0].numpy(), values / 65535, atol=0.01)
    with pytest.raises(UserError, match="mode F"):
        eval_transform(task)(Image.fromarray(values.astype(np.float32)))


def test_a_checkpoint_of_another_run_does_not_open_a_taken_folder(fit, ancestor, tmp_path):
    assert fit("Ancestor", "--name=a").code == 0
    (tmp_path / "runs/test/a/seed0/checkpoints/last.ckpt").unlink()
    for options in ([f"--ckpt_path={ancestor}/checkpoints/last.ckpt"], []):
        result = fit("Ancestor", "--name=a", *options)
        assert result.code == 2
        assert "already holds a run" in result.sentence
    assert read_rows(tmp_path / "runs/test/a/seed0/results.csv")


def test_resuming_within_an_epoch_with_another_batch_is_refused():
    loader = ResumableLoader(range(20), batch_sampler=TrainBatchSampler(20, 4, seed=0))
    state = {"epoch": 0, "batch": 2, "examples": 8}
    with pytest.raises(UserError, match="global batches of 8, not 4"):
        loader.load_state_dict(state)
    loader.load_state_dict({**state, "batch": 5})  # the end of an epoch is no matter


def test_resuming_with_another_optimizer_is_refused(images, ancestor, tmp_path):
    args = arguments("fit", "Ancestor", images, tmp_path, "--name=o", f"--ckpt_path={ancestor}/checkpoints/last.ckpt")
    result = lgx(*(a.replace("AdamW", "SGD") for a in args))
    assert result.code == 2
    assert "trained with AdamW, not SGD" in result.sentence


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model.mixup=0.8", "--data.batch_size=5"], ("even", "5")),
        (["--data.num_workers=-1"], ("num_workers", "-1")),
        (["--data.eval_batch_size=-1"], ("eval_batch_size", "-1")),
        (["--data.augment=foo"], ("data", "crop_flip", "foo")),
    ],
    ids=lambda value: str(value[0]),
)
def test_mistakes_that_gave_tracebacks_get_a_sentence(fit, options, words):
    result = fit("Ancestor", *options)
    assert result.code == 2
    assert "NestedArg" not in result.sentence, result.sentence
    assert all(word in result.sentence for word in words), result.sentence


def test_a_boolean_seed_names_the_folder_and_the_rows_alike(fit, tmp_path):
    assert fit("Ancestor", "--name=b", "--seed_everything=true").code == 0
    assert {r.seed for r in read_rows(tmp_path / "runs/test/b/seed0/results.csv")} == {0}


def test_a_checkpoint_without_weights_is_refused(fit, tmp_path):
    torch.save({"lgx": {}}, tmp_path / "half.ckpt")
    result = fit("Ancestor", f"--ckpt_path={tmp_path / 'half.ckpt'}", command="test")
    assert result.code == 2
    assert "not a checkpoint of an lgx run" in result.sentence


def test_a_teacher_that_cannot_read_the_images_is_refused(tmp_path):
    import timm
    from timm.models import save_for_hf

    from lgx.components.teacher import Teacher

    save_for_hf(timm.create_model("levit_128s", num_classes=5), str(tmp_path / "levit"), safe_serialization=True)
    with pytest.raises(UserError, match="cannot read 3 channels of 32 px"):
        Teacher.load(str(tmp_path / "levit"), Task("x", 5, img_size=32))
    assert Teacher.load(str(tmp_path / "levit"), Task("x", 5, img_size=224))(torch.zeros(1, 3, 224, 224)).shape == (
        1,
        5,
    )


def test_a_weights_file_that_init_wrote_is_a_start_again(sws, tmp_path):
    learngene, three = sws / "best.learngene.safetensors", ARCH.replace("depth=4", "depth=3")
    for source, out in ((learngene, "a.safetensors"), (tmp_path / "a.safetensors", "b.safetensors")):
        result = lgx("init", "--learngene", source, "--arch", three, "--out", tmp_path / out)
        assert result.code == 0, result.err
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_init_reaches_every_option_of_an_initializer(sws, ancestor, tmp_path):
    learngene, five = sws / "best.learngene.safetensors", ARCH.replace("depth=4", "depth=3")
    base = ["init", "--arch", five, "--out", tmp_path / "m", "--learngene"]
    assert "sws_order2" in lgx(*base, learngene, "--order", "front_last_mid").out
    assert "sws_random_assigned" in lgx(*base, learngene, "--strategy", "random_assigned").out
    eight = ["init", "--arch", ARCH.replace("depth=4", "depth=8"), "--strategy", "random_assigned", "--learngene"]
    for seed in (1, 2):
        assert lgx(*eight, learngene, "--seed", seed, "--out", tmp_path / f"{seed}.safetensors").code == 0
    assert (tmp_path / "1.safetensors").read_bytes() != (tmp_path / "2.safetensors").read_bytes()
    whole = ancestor / "best.learngene.safetensors"
    result = lgx(*base, whole, "--method", "vanilla_lg", "--layers", 1, "--position", "back", "--num_classes", 3)
    assert "blocks.2" in next(line for line in result.out.splitlines() if line.startswith("taken"))
    for options, words in [
        ((whole, "--method", "weight_selection", "--layers", 1), "does not take it"),
        ((learngene, "--head", 0), "at least 1 class"),
        ((sws / "checkpoints/best.ckpt",), "give best.learngene.safetensors of that run"),
        ((sws / "checkpoints/best.ckpt", "--method", "sws"), "no learngene file"),
    ]:
        result = lgx(*base, *options)
        assert result.code == 2
        assert words in result.sentence


def test_a_missing_test_split_is_known_before_training(images, tmp_path):
    import shutil

    copy = tmp_path / "shapes"
    shutil.copytree(images, copy)
    shutil.rmtree(copy / "test")
    result = lgx(*arguments("fit", "Ancestor", copy, tmp_path / "runs", "--name=r", "--test_end=true"))
    assert result.code == 2
    assert "test" in result.sentence
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_run_resumed_by_its_absolute_path_keeps_its_best_score(fit, images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lgx(*arguments("fit", "Ancestor", images, "runs", "--name=r")).code == 0
    args = arguments("fit", "Ancestor", images, tmp_path / "runs", "--name=r", "--ckpt_path=last")
    result = lgx(*args, "--trainer.max_epochs=2")
    assert result.code == 0, result.err
    rows = [r.value for r in read_rows("runs/test/r/seed0/results.csv") if r.metric == "acc"]
    saved = load_checkpoint("runs/test/r/seed0/checkpoints/last.ckpt")["callbacks"]
    (best,) = [state["best_model_score"] for key, state in saved.items() if key.startswith("ModelCheckpoint")]
    assert float(best) == pytest.approx(max(rows))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeds": 3}, "seeds"),
        ({"seeds": ["a"]}, "seeds"),
        ({"runs": [{"name": "x", "config": "c", "matrix": {"d": 6}}]}, "list or a mapping"),
        ({"runs": [{"name": "x", "config": "c", "options": ["a"]}]}, "options"),
        ({"runs": [{"name": "x", "config": "c"}, {"name": "x", "config": "c"}]}, "different names"),
    ],
)
def test_a_malformed_sweep_gets_a_sentence(tmp_path, change, words):
    content = {"experiment": "e", "seeds": [0], "runs": [{"name": "x", "config": "c"}], **change}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(content))
    result = lgx("sweep", tmp_path / "s.yaml")
    assert result.code == 2
    assert words in result.sentence


def test_null_in_a_sweep_reaches_the_run_as_null(tmp_path):
    from lgx.runs.sweeps import load_sweep, run_arguments

    run = {"name": "x", "config": "c", "options": {"data.limit_train": None, "model.stages": [2, 2], "a": True}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"experiment": "e", "seeds": [0], "runs": [run]}))
    sweep = load_sweep(tmp_path / "s.yaml")
    arguments_of_run = run_arguments(sweep, sweep.runs[0])
    assert {"--data.limit_train=null", "--model.stages=[2, 2]", "--a=true"} <= set(arguments_of_run)


def test_a_closed_pipe_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m lgx --help | head -2"
    done = python("-c", f"import subprocess, sys; sys.exit(subprocess.run({command!r}, shell=True, "
                  "stderr=subprocess.PIPE, check=True).stderr != b'')")  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_predictions_name_the_right_images_in_any_order_of_loading(fit, ancestor, tmp_path):
    path = f"--ckpt_path={ancestor}/checkpoints/best.ckpt"
    assert fit("Ancestor", path, "--name=p", command="predict").code == 0
    lines = (tmp_path / "runs/test/p/seed0/predictions.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["index", *map(str, range(12))]
    assert {line.split(",")[2] for line in lines[1:]} <= {"circle", "square", "stripe"}


@pytest.mark.slow
def test_one_wrong_image_under_ddp_gives_sentences_only(tmp_path):
    from tests.support.images import write_images

    images = write_images(tmp_path / "shapes", {"train": 24, "val": 6, "test": 3})
    broken = images / "train" / "circle" / "000.png"
    broken.write_bytes(broken.read_bytes()[:60])
    options = ["--name=d", "--trainer.devices=2", "--trainer.strategy=ddp", "--data.batch_size=12"]
    args = arguments("fit", "Ancestor", images, tmp_path / "runs", *options)
    done = python("-m", "lgx", *[a for a in args if a != "--trainer.devices=1"], OMP_NUM_THREADS="1")
    assert done.returncode != 0
    assert "000.png" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_sweep_starts_all_processes_of_every_run(images, tmp_path):
    args = arguments("fit", "Ancestor", images, tmp_path / "runs")
    options = dict(a.removeprefix("--").split("=", 1) for a in args[3:] if a.startswith("--") and "=" in a)
    options = {k: v for k, v in options.items() if k not in ("runs_dir", "experiment", "trainer.devices")}
    (tmp_path / "c.yaml").write_text("model: Ancestor\n")
    options |= {"trainer.devices": 2, "trainer.strategy": "ddp", "data.batch_size": 8, "test_end": True}
    sweep = {"experiment": "e", "seeds": [0, 1], "runs": [{"name": "x", "config": "c.yaml", "options": options}]}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(sweep))
    done = python("-m", "lgx", "sweep", tmp_path / "s.yaml", "--runs_dir", tmp_path / "runs", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr[-3000:]
    for seed in (0, 1):
        assert json.loads((tmp_path / f"runs/e/x/seed{seed}/summary.json").read_text())["processes"] == 2
