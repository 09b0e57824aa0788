"""Handle Ctrl-C, SIGTERM, and the signal by which a cluster announces the end of a run that it will requeue."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

REQUEUE = signal.SIGUSR1
"""The signal by which SLURM announces the end of a run that it will requeue, as in Lightning."""
STOPS = (signal.SIGTERM, REQUEUE)
"""The signals after which a run saves its state and ends."""


@contextmanager
def one_interrupt() -> Iterator[None]:
    """Let only the first Ctrl-C interrupt the program; later ones would interrupt its exit, with a traceback."""
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if not is_interrupted:  # Lightning restores this handler when it has been interrupted
            is_interrupted = True
            raise KeyboardInterrupt

    # A job in a shell's background ignores Ctrl-C, and other threads may not set handlers.
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN if is_interrupted else signal.default_int_handler)


class StopSignals:
    """Notes the first signal that was received.

    Attributes:
        received: Its number; None before the first.
    """

    def __init__(self) -> None:
        self.received: int | None = None

    def listen(self, *numbers: int) -> None:
        """Record signals from now on, instead of the earlier handlers."""
        for number in numbers:
            signal.signal(number, self._note)

    @contextmanager
    def requeue_noted(self) -> Iterator[None]:
        """Record :data:`REQUEUE` inside the block; at its end restore the handlers of all stop signals.

        Without a handler the signal ends the process. SLURM may send it while a run that has just started builds its
        network.
        """
        before = {number: signal.getsignal(number) for number in STOPS}
        self.listen(REQUEUE)
        try:
            yield
        finally:
            self.received = None
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or number


STOP = StopSignals()
"""The signals of this process."""
