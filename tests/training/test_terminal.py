"""What reaches a file and what reaches a terminal, and that nothing comes from libraries."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios

import pytest

from tests.support.command_line import arguments

NOISE = (
    "GPU available", "TPU", "HPU", "Tip:", "litlogger", "litmodels", "srun", "FLOPs", "Flops", "v_num", "num_workers",
    "DataLoader", "HINT", "Trainer.fit", "Restoring states", "Restored all states", "Loaded model weights",
    "Trainable params", "eval_metrics", "Automatic Mixed Precision", "sync_dist", "deprecated", "Warning", "warn(",
    "lightning/", "site-packages",
)  # fmt: skip
"""Words of messages and warnings of libraries."""

RUN = """
import json, sys
from lgx.cli import main
for words in json.loads(sys.argv[1]):
    print("COMMAND", flush=True)
    main(words)
"""
"""Runs several command lines in one process, each after a mark."""


def started(*lines, code=RUN, **options):
    """Command lines in a process of their own."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", **options.pop("env", {})}
    return subprocess.Popen([sys.executable, "-c", code, json.dumps(lines)], env=env, **options)


def words(command, images, runs, *options):
    own = [w for w in arguments(command, "Ancestor", images, runs) if "enable_" not in w and "max_epochs" not in w]
    return [*own, "--name=t", "--trainer.max_epochs=3", *map(str, options)]


@pytest.fixture(scope="module")
def srun(tmp_path_factory):
    """A folder of programs that has SLURM's srun."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "srun").write_text("#!/bin/sh\n")
    (folder / "srun").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="module")
def piped(images, srun, tmp_path_factory):
    """What a run, its test, and a run without validation write to a file; stdout and stderr together."""
    runs = tmp_path_factory.mktemp("piped")
    log = runs / "log"
    fit = words("fit", images, runs, "--test_end")
    test = words("test", images, runs, "--ckpt_path=best")
    blind = words("fit", images, runs, "--trainer.limit_val_batches=0", "--name=blind")
    with log.open("w") as file:
        process = started(fit, test, blind, stdout=file, stderr=subprocess.STDOUT, env={"PATH": srun})
        assert process.wait(timeout=150) == 0, log.read_text()
    return log.read_text()


@pytest.fixture(scope="module")
def terminal(images, tmp_path_factory):
    """What a terminal gets from a run, its test, a run without a bar, and a run with the user's bar."""
    runs = tmp_path_factory.mktemp("terminal")
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 140))
    process = started(
        words("fit", images, runs, "--test_end"),
        words("test", images, runs, "--ckpt_path=best"),
        words("fit", images, runs, "--name=plain", "--trainer.enable_progress_bar=false"),
        words("fit", images, runs, "--name=own", "--trainer.callbacks+=TQDMProgressBar"),
        stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    chunks = []
    with contextlib.suppress(OSError):  # Linux reports the end of the last writer so
        while chunk := os.read(master, 65536):
            chunks.append(chunk)
    os.close(master)
    text = b"".join(chunks).decode()
    assert process.wait(timeout=150) == 0, text
    return text.split("COMMAND\r\n")[1:]


def test_a_file_gets_whole_lines_without_escape_codes_or_bars_and_nothing_from_libraries(piped):
    assert [c for c in set(piped) if not (c.isprintable() or c == "\n")] == []
    assert "batches/s" not in piped
    epochs = re.findall(
        r"^epoch +(\d)/(\d)  train loss [\d.]+  val accuracy [\d.]+ %  val loss [\d.]+  ", piped, re.MULTILINE
    )
    assert epochs == [("1", "3"), ("2", "3"), ("3", "3")]
    assert len(re.findall(r"^test       accuracy", piped, re.MULTILINE)) == 1
    assert [noise for noise in NOISE if noise in piped] == []


@pytest.mark.slow
def test_a_terminal_gets_the_same_lines_above_a_bar_and_nothing_from_libraries(terminal):
    text = terminal[0]
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor, hidden beside a bar, is shown in the end
    assert re.search(r"Epoch 1/2", text)
    # Each line replaces the bar, which is drawn again below it.
    lines = re.findall(r"epoch +(\d)/3  train loss [\d.]+  val accuracy [\d.]+ %[^\x1b\n]*\r\n", text)
    assert lines == ["1", "2", "3"]
    end = re.sub(r"\x1b\[[0-9?;]*[A-Za-z]", "", text[text.index("trained    ") :])
    score = r"accuracy [\d.]+ % \(95 %: [\d.]+ to [\d.]+\) of 12 images of shapes"
    assert re.search(f"final      test {score}", end)
    assert "Testing" in terminal[1]
    assert re.search(f"test       {score} [^\x1b]*\r\n", terminal[1])
    assert [noise for noise in NOISE if noise in "".join(terminal[:3])] in ([], ["v_num"])  # the bar has the version


@pytest.mark.slow
def test_without_a_bar_there_are_no_escape_codes_and_a_bar_of_the_user_is_left_alone(terminal):
    assert "\x1b" not in terminal[2]
    assert len(re.findall(r"^epoch +\d/3  train loss [\d.]+  val accuracy [\d.]+ %", terminal[2], re.MULTILINE)) == 3
    assert "Epoch 0" in terminal[3]
    assert "batches/s" not in terminal[3]
    assert len(re.findall(r"epoch +\d/3  train loss [\d.]+  val accuracy [\d.]+ %", terminal[3])) == 3
