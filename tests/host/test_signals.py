"""SIGUSR1 at moments at which a run cannot act on it."""

import signal
import subprocess
import sys

from lgx.host.signals import STOP

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
