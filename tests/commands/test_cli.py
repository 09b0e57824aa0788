"""The entry point of the command line: help, version, unknown commands."""

import io
import signal
import subprocess
import sys
import time

import pytest

import lgx as package
from lgx import cli
from lgx.cli import COMMANDS, TRAINING
from tests.support.command_line import lgx, ok, python


def test_help_lists_every_command_and_imports_no_torch():
    code = "import sys; from lgx.cli import main; main(['--help']); assert 'torch' not in sys.modules"
    start = time.perf_counter()
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in (*COMMANDS, *TRAINING))
    assert time.perf_counter() - start < 30  # detects a hang; docs/performance states the time


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
        (["backbones"], "lgx backbones: PATTERN: missing; `lgx backbones --help` describes what the command takes"),
        (["init", "--arch=2-Tiny"], "lgx init: --out: missing; `lgx init --help` describes what the command takes"),
        (["fit", "--overwrite", "x"], "lgx fit: --overwrite: expected true, false or nothing, got 'x'"),
        *(
            (
                ["init", "--arch=2-Tiny", "--out=x", f"--source=hf://{name}"],
                f"lgx init: hf://{name}: expected hf://ORGANIZATION/NAME, then @REVISION and /FILE if needed",
            )
            for name in ("org/na..me", "org/na--me", "org/name.git", "org/name.")
        ),
    ],
)
def test_a_mistake_in_a_command_is_named(words, sentence):
    result = lgx(*words)
    assert (result.code, result.sentence) == (2, sentence)


def test_commands_with_subcommands_list_them():
    assert "prepare" in lgx("data").out


def test_help_of_a_method_lists_inherited_options_with_their_text():
    done = ok(lgx("fit", "--model.help=SWS"))
    for option in ("stages", "alpha", "ancestor", "label_smoothing", "arch"):
        assert f"--model.{option}" in done.out or f"--{option}" in done.out
    assert "Layers of each stage" in done.out


def test_version():
    assert lgx("--version").out == f"lgx {package.__version__}\n"


def test_ten_interrupts_end_a_command_with_one_sentence():
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


def test_what_a_terminal_cannot_print_is_escaped(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(cli, "run_command", lambda argv: print("6 × é", flush=True))
    cli.main(["doctor"])
    assert stream.buffer.getvalue() == b"6 \\xd7 \\xe9\n"


def test_a_closed_pipe_is_not_an_error():
    command = subprocess.Popen([sys.executable, "-m", "lgx", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait() == 141  # as of a program that SIGPIPE has ended
