"""A run notes the signal of its cluster until it ends."""

import signal

from lgx.host.signals import STOP


def test_the_signal_is_noted_and_forgotten_with_the_run():
    with STOP.requeue_noted():
        signal.raise_signal(signal.SIGUSR1)
        assert STOP.received == signal.SIGUSR1
    assert STOP.received is None
