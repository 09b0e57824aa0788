"""The one exception for a user's mistake."""


class UserError(Exception):
    """A mistake in what the user gave: shown as one sentence, without a traceback, exit code 2.

    Not a ``ValueError``: argument parsers catch those to try other readings, and bury the message.

    The message names the file, key or argument, says what was wrong and what would be right.
    """
