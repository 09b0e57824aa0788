"""The entry point of the command line: help, version, unknown commands."""

import re
import signal
import subprocess
import sys

import pytest

import lgx as package
from lgx.cli import COMMANDS, TRAINING
from lgx.commands.training_help import EXAMPLES
from lgx.methods import registry
from lgx.training.configuration import make_parser
from lgx.training.lightning_internals import option_strings
from tests.support.command_line import lgx, ok, python


def test_help_lists_every_command_and_imports_no_torch():
    pages = [["--help"], *([command, *WITH_FILE.get(command, ()), "--help"] for command in TRAINING)]
    code = f"""
import contextlib, sys
from lgx.cli import main
for words in {pages}:
    with contextlib.suppress(SystemExit):
        main(words)
assert not {{"torch", "lightning", "data_modules"}} & {{*sys.modules}}"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in (*COMMANDS, *TRAINING))
    assert all(f"usage: lgx {command} " in done.stdout for command in TRAINING)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "data"])
def test_every_command_has_a_help_text(command):
    result = ok(lgx(command, "--help"))
    assert f"lgx {command}" in result.out
    assert len(result.out) > 150


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ft"], "lgx ft: unknown command 'ft'; did you mean 'fit'?"),
        (["xyzzy"], "lgx xyzzy: unknown command 'xyzzy'; see lgx --help"),
        (["data", "prepar"], "lgx data: unknown command 'prepar' of lgx data; the commands are list, prepare"),
        (["arch"], "lgx arch: the following arguments are required: names"),
        (["init", "--arch=2-Tiny"], "lgx init: the following arguments are required: out"),
        (["fit", "--overwrite", "x"], "lgx fit: argument --overwrite/--no_overwrite: invalid _boolean_type value: 'x'"),
        (
            ["init", "--arch=2-Tiny", "--out=x", "--source=hf://org/na..me"],
            "lgx init: hf://org/na..me: expected hf://ORGANIZATION/NAME, then @REVISION and /FILE if needed",
        ),
    ],
)
def test_a_mistake_in_a_command_is_named(words, sentence):
    result = lgx(*words)
    assert (result.code, result.sentence) == (2, sentence)


def test_version():
    assert lgx("--version").out == f"lgx {package.__version__}\n"


def test_interrupts_end_a_command_with_one_sentence():
    code = """
import os, signal, sys, threading, time
from lgx import cli

def press():
    for _ in range(10):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)

def work(argv):
    threading.Thread(target=press).start()
    try:
        time.sleep(60)
    finally:
        time.sleep(0.1)  # what a command does before it ends

signal.signal(signal.SIGINT, signal.default_int_handler)
cli.run_command = work
cli.main(["sweep"])
"""
    done = python("-c", code)
    assert done.returncode == 130, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("lgx sweep: interrupted")


def test_the_handler_of_interrupts_is_restored():
    before = signal.getsignal(signal.SIGINT)
    for words in ("--version", "xyzzy"):
        lgx(words)
        assert signal.getsignal(signal.SIGINT) is before


def test_a_closed_pipe_is_not_an_error():
    command = subprocess.Popen([sys.executable, "-m", "lgx", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait() == 141  # as of a program that SIGPIPE has ended


def test_this_machine_has_no_problem(monkeypatch):
    variables = {"SLURM_NTASKS": "1", "SLURM_JOB_NAME": "bash", "TORCHELASTIC_RUN_ID": "x"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = ok(lgx("doctor"))
    for words in ("PyTorch version: ", "timm ", "cluster: torchrun", "named bash or interactive", "no problem found"):
        assert words in result.out


WITH_FILE = {"predict": ["--config", "no_file.yaml"]}
"""Command -> options with which it predicts a test split; ``lgx predict --help`` alone is about image files."""


@pytest.mark.parametrize("command", TRAINING)
def test_the_help_is_one_page_of_80_columns_and_names_real_options_with_their_defaults(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = lgx(command, *WITH_FILE.get(command, ()), "--help")
    lines = done.out.splitlines()
    assert done.code == 0
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    for words in (f"usage: lgx {command} ", "--model.help SWS", "--data.help CIFAR10", "--help-all", "an example:"):
        assert words in done.out
    assert lgx(command, "--config", "no_file.yaml", "-h").out == done.out
    shown = done.out.partition("main options:\n")[2]
    names = re.findall(r"^  --([\w.-]+)", shown, re.MULTILINE)
    known, defaults = option_strings(make_parser(command)), make_parser(command).get_defaults()
    of_class = ("model.arch", "model.ancestor", "model.optimizer", "data.root", "data.batch_size", "help-all")
    assert [name for name in names if f"--{name}" not in known and name not in of_class] == []
    for name, default in re.findall(r"^  --([\w.]+) .*\(default: (\d+)\)", shown, re.MULTILINE):
        assert str(defaults[name]) == default


def test_the_help_names_every_method_that_can_be_trained():
    text = " ".join(lgx("fit", "--help").out.split())
    assert ", ".join(sorted(registry.method_classes())) in text


@pytest.mark.slow
def test_the_examples_of_the_help_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("fit", "validate", "test", "predict"):
        ok(lgx(*EXAMPLES[command].split(), "--trainer.max_epochs=1", "--trainer.accelerator=cpu"))
    run = tmp_path / "runs/first/net/seed0"
    rows = (run / "results.csv").read_text()
    assert ",val," in rows
    assert ",test," in rows
    assert (run / "predictions.csv").is_file()


def test_help_all_lists_every_option():
    done = ok(lgx("validate", "--help-all"))
    assert len(done.out.splitlines()) > 300
    assert all(option in done.out for option in ("--trainer.gradient_clip_val", "--checkpoint.", "--save_every"))
