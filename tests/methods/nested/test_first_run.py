"""A run whose ancestor is not for the task's classes: another run fine-tunes it first."""

import signal
import subprocess
import sys
import time

import pytest
import yaml

from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from tests.support.command_line import ACCELERATOR, lgx, ok, python
from tests.support.extras import need_onnx


def command(images, ancestor, runs, *options):
    """The command of the shipped configuration, on tiny networks."""
    file = runs / "family.yaml"
    file.write_text(lgx("config", "family").out)
    own = [f"--data.root={images}", f"--model.ancestor={ancestor}", f"--runs_dir={runs}"]
    own += [f"--trainer.accelerator={ACCELERATOR}"]
    return ["fit", "--config", str(file), *own, "--trainer.max_epochs=2", "--data.batch_size=8", *options]


def test_the_ancestor_is_fine_tuned_once_and_the_run_says_which_one_it_reads(images, headless, tmp_path, request):
    need_onnx()
    given = command(images, headless, tmp_path)
    done = ok(lgx(*given))
    first, run = tmp_path / "mine/family_ancestor/seed0", tmp_path / "mine/family/seed0"
    classes = sorted(path.name for path in (images / "train").iterdir())
    assert list(load_pretrained(str(first / f"best{SUFFIX}")).label_names) == classes
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["init_args"]["ancestor"] == str(first)
    assert config["model"]["init_args"]["arch"] == Learngene.load(headless).architecture.spec()
    assert (run / "front.csv").is_file()
    first_runs = request.getfixturevalue("first_runs")
    again = ok(lgx(*given, "--ckpt_path", "last"))
    assert [done.out.count("nothing to do") for done in (again, *first_runs)] == [1, 1]
    out = tmp_path / "small.onnx"
    words = done.out.strip().splitlines()[-1].split()
    assert words[:3] == ["next", "lgx", "export"]
    assert lgx(*words[2:-1], out).code == 0
    assert out.is_file()


@pytest.mark.parametrize(
    ("options", "words"),
    [(['--model.sizes=["depth=9"]'], "9 layers"), (["--trainer.fast_dev_run=true"], "fast_dev_run")],
)
def test_a_mistake_is_found_before_the_first_run(images, headless, tmp_path, options, words):
    done = lgx(*command(images, headless, tmp_path, "--name=a/b", *options))
    assert (done.code, words in done.sentence) == (2, True)
    assert not (tmp_path / "mine").exists()


def test_a_first_run_that_fails_ends_the_command(images, headless, tmp_path, first_runs):
    done = lgx(*command(images, headless, tmp_path, "--trainer.accelerator=tpu"))
    (first,) = first_runs
    assert (done.code, first.code, "Traceback" in done.err + first.err) == (2, 2, False)
    assert not (tmp_path / "mine").exists()


@pytest.mark.slow
def test_both_runs_train_on_the_processes_of_torchrun(images, headless, tmp_path):
    given = command(images, headless, tmp_path, "--trainer.devices=2", "--trainer.strategy=ddp")
    done = python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "lgx", *given)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is fine-tuned on") == 1
    assert (tmp_path / "mine/family/seed0/front.csv").is_file()


@pytest.mark.slow
def test_a_killed_first_run_resumes_to_the_same_family(images, headless, tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    options = "--save_every=1", "--trainer.max_epochs=6"
    assert python("-m", "lgx", *command(images, headless, tmp_path / "whole", *options)).returncode == 0
    given = [sys.executable, "-m", "lgx", *command(images, headless, tmp_path / "killed", *options)]
    process = subprocess.Popen(given, stdout=subprocess.PIPE, text=True)
    while not list((tmp_path / "killed").rglob("last.ckpt")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert python(*given[1:], "--ckpt_path", "last").returncode == 0
    files = [tmp_path / name / "mine/family/seed0" / f"best{SUFFIX}" for name in ("whole", "killed")]
    one, other = (Learngene.load(file).tensors for file in files)
    assert all(one[name].equal(other[name]) for name in one)
