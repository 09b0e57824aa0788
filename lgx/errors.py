"""What ends a command early: a mistake of the user, or the cluster."""


class UserError(Exception):
    """A mistake in what the user gave: shown as one sentence, without a traceback, exit code 2.

    Not a ``ValueError``: argument parsers catch those to try other readings, and bury the message.

    The message names the file, key or argument, says what was wrong and what would be right.
    """


class Preempted(Exception):
    """The run was told to end, saved its state and has ended; shown as one sentence.

    Args:
        sentence: What was saved, and how the run goes on.
        code: Exit code.
    """

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code
