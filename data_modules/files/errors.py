"""What is raised for a file that cannot be read: one sentence, also out of a loader process."""

from collections.abc import Callable
from typing import Any

from lgx.errors import UserError
from lgx.host.safety import error_line


class DataError(UserError):
    """A :class:`UserError` that is still one sentence after it came from a loader process.

    DataLoader builds the exception of a worker again from the text of its whole traceback; this class keeps only the
    sentence at the end.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rstrip().rsplit("DataError: ", 1)[-1])


def unreadable(place: str, error: Exception, remedy: str) -> DataError:
    """What to raise for an image that cannot be read; an intact one of another form than expected is not restored."""
    if isinstance(error, UserError):
        return DataError(f"{place}: {error}")
    return DataError(f"{place} cannot be decoded ({error_line(error)}); {remedy}")


def guarded(build: Callable[[], Any], what: str, remedy: str) -> Any:
    """Call ``build``, which opens data, and turn an exception of a reader into one sentence.

    Raises:
        UserError: If ``build`` raised any exception.
    """
    try:
        return build()
    except (UserError, MemoryError):
        raise
    except Exception as error:
        raise UserError(f"{what} is incomplete or corrupted ({error_line(error)}); {remedy}") from error
