"""A run collects garbage as usual, and notes signals before it has started."""

import gc
import signal
import subprocess
import sys
from typing import ClassVar

import pytest
from lightning.pytorch import Callback

from lgx.host.signals import STOP
from lgx.host.startup import RARE, collect_rarely


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
