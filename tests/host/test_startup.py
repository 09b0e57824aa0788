"""Imports that nobody uses are left out; a program ends at once with its exit code; a run collects garbage as usual."""

import gc
import signal
import subprocess
import sys
from typing import ClassVar

import pytest
from lightning.pytorch import Callback

from lgx.host.signals import STOP
from lgx.host.startup import RARE, collect_rarely
from tests.support.command_line import python

PROGRAM = """
import atexit, sys
from lgx.host import startup
class Freed:
    def __del__(self):
        print("collected")
garbage = Freed()
garbage.itself = garbage
print("no newline and no flush", end=" ")
with startup.exit_at_once():
    atexit.register(print, "registered within")
    del garbage
    {end}
"""


@pytest.mark.parametrize(
    ("end", "code"), [("pass", 0), ("sys.exit()", 0), ("sys.exit(141)", 141), ("sys.exit('x')", 1)]
)
def test_a_program_ends_with_its_code_after_what_is_registered_and_collects_nothing(end, code):
    done = python("-c", PROGRAM.format(end=end))
    assert (done.returncode, done.stdout) == (code, "no newline and no flush registered within\n")


def test_an_unexpected_error_has_its_traceback_and_pythons_own_end():
    done = python("-c", PROGRAM.format(end="1 / 0"))
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout.endswith("registered within\ncollected\n")


def test_output_that_cannot_be_written_is_left_to_python():
    done = python("-c", PROGRAM.format(end="sys.stdout = open('/dev/full', 'w'); print('x')"))
    assert done.returncode == 120, done.stderr


class Thresholds(Callback):
    """Notes how often the garbage collector runs during training."""

    seen: ClassVar[list[tuple[int, int, int]]] = []

    def on_train_start(self, trainer, pl_module):
        self.seen.append(gc.get_threshold())


@pytest.fixture
def thresholds():
    """Thresholds of the garbage collector that are not Python's own."""
    before, own = gc.get_threshold(), (800, 11, 12)
    gc.set_threshold(*own)
    yield own
    gc.set_threshold(*before)


@pytest.mark.parametrize("rarely", [True, False])
def test_training_collects_as_usual(fit, monkeypatch, thresholds, rarely):
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "tests")
    monkeypatch.setattr(Thresholds, "seen", [])
    if rarely:
        collect_rarely()
        assert gc.get_threshold() == RARE
    assert fit("Ancestor", "--name=a", "--trainer.callbacks+=tests.host.test_startup.Thresholds").code == 0
    assert Thresholds.seen == [thresholds]


IMPORTS = """
import sys
from lgx.host.startup import skip_unused_imports
skip_unused_imports()
skip_unused_imports()
import timm
assert not any(name.startswith("wandb") for name in sys.modules)
import wandb
assert wandb.__version__
from wandb.sdk.lib import RunDisabled

import torchmetrics
assert not any(name.startswith(("transformers", "scipy.signal")) for name in sys.modules)
from torchmetrics.functional.text import bert
import scipy.signal, transformers
config = transformers.BertConfig(
    vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
)
assert bert.AutoModel.from_config(config).config.vocab_size == 8  # a stand-in calls what it stands for
assert scipy.signal.windows.hann(4).shape == (4,) and scipy.signal is sys.modules["scipy.signal"]
assert isinstance(transformers.AutoModel, type)
"""


@pytest.mark.slow
def test_timm_and_torchmetrics_load_less_and_whoever_uses_the_rest_gets_it():
    pytest.importorskip("wandb")
    pytest.importorskip("transformers")
    done = python("-c", IMPORTS)
    assert done.returncode == 0, done.stderr


NOTE = """
import os, signal
from lgx.host.signals import STOP
{before}
with STOP.requeue_noted():
    assert STOP.received == {received}
{after}
"""


def note(before="", received=None, after=""):
    program = NOTE.format(before=before, received=received, after=after)
    return subprocess.run([sys.executable, "-c", program], timeout=60).returncode


def test_a_finished_process_that_ends_ignores_the_signal():
    """The callback runs after that of lgx, as the end of the packages does."""
    late = "import atexit\natexit.register(os.kill, os.getpid(), signal.SIGUSR1)"
    assert note() == 0
    assert note(before=late) == 0


def test_a_signal_before_python_has_started_is_noted_later():
    """The process that starts a run delays the signal until the run can note it."""
    with STOP.requeue_delayed():
        assert note("os.kill(os.getpid(), signal.SIGUSR1)", received=int(signal.SIGUSR1)) == 0
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_the_signal_is_noted_and_forgotten_with_the_run():
    with STOP.requeue_noted():
        signal.raise_signal(signal.SIGUSR1)
        assert STOP.received == signal.SIGUSR1
    assert STOP.received is None
