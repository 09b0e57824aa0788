"""``lgx fit --help`` is a short page that answers at once; ``--help-all`` lists every option."""

import re
import shlex

import pytest

from lgx.cli import TRAINING
from lgx.commands.training_help import EXAMPLES
from lgx.methods import registry
from lgx.training.configuration import make_parser, parse_configuration
from lgx.training.lightning_internals import option_strings
from tests.support.command_line import lgx, ok, python

WITH_FILE = {"predict": ["--config", "no_file.yaml"]}
"""Command -> options with which it predicts a test split; ``lgx predict --help`` alone is about image files."""


@pytest.mark.parametrize("command", TRAINING)
def test_the_help_is_one_page_of_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = lgx(command, *WITH_FILE.get(command, ()), "--help")
    lines = done.out.splitlines()
    assert done.code == 0
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    for words in (f"usage: lgx {command} ", "--model.help SWS", "--data.help CIFAR10", "--help-all", "an example:"):
        assert words in done.out
    assert lgx(command, "--config", "no_file.yaml", "-h").out == done.out


@pytest.mark.parametrize("command", TRAINING)
def test_the_help_imports_no_torch(command):
    code = f"""
import sys
from lgx.cli import main
main(["{command}", *{WITH_FILE.get(command, ())}, "--help"])
assert not {{"torch", "lightning", "data_modules"}} & {{*sys.modules}}"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", TRAINING)
def test_the_help_names_real_options_with_their_defaults(command):
    shown = lgx(command, *WITH_FILE.get(command, ()), "--help").out.partition("the options to know first:\n")[2]
    names = re.findall(r"^  --([\w.-]+)", shown, re.MULTILINE)
    known, defaults = option_strings(make_parser(command)), make_parser(command).get_defaults()
    of_class = ("model.arch", "model.ancestor", "model.optimizer", "data.root", "data.batch_size", "help-all")
    assert [name for name in names if f"--{name}" not in known and name not in of_class] == []
    for name, default in re.findall(r"^  --([\w.]+) .*\(default: (\d+)\)", shown, re.MULTILINE):
        assert str(defaults[name]) == default


def test_the_help_names_every_method_that_can_be_trained():
    text = " ".join(lgx("fit", "--help").out.split())
    assert ", ".join(sorted(registry.method_classes())) in text


def test_the_example_of_the_help_is_a_valid_configuration(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    shown = lgx("fit", "--help").out.split("an example:\n")[1].split("\n\n")[0]
    words = shlex.split(shown.replace("\\\n", ""))
    assert words == ["lgx", *EXAMPLES["fit"].split()]
    config = parse_configuration(make_parser("fit"), words[2:])
    assert config.model.class_path.endswith(".Ancestor")


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
