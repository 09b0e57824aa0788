"""Exceptions that end a command early: a user's mistake, or preemption by the cluster."""


class UserError(Exception):
    """A mistake in the user's input. The command line shows its message without a traceback and exits with code 2.

    The message is one sentence: the file, key or argument; what is wrong; what would be right.

    Every function that reads a user's input may raise it. Only the docstrings in docs/api.md list the cases.

    It is not a ``ValueError``: argument parsers catch ValueErrors to try other types, and the message would be lost.
    """


class Preempted(Exception):
    """The run received a signal, saved its state and ended. The command line shows the message.

    Args:
        sentence: What was saved, and how to resume the run.
        code: Exit code.
    """

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code
