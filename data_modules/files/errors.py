"""The error of an unreadable file: one sentence, also from a loader process."""

from collections.abc import Callable
from typing import Any

from lgx.errors import UserError
from lgx.host.safety import error_line


class DataError(UserError):
    """A :class:`UserError` that remains one sentence when it comes from a loader process.

    DataLoader builds the exception of a worker again from the text of its whole traceback; this class keeps only the
    sentence at the end.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rstrip().rsplit("DataError: ", 1)[-1])


def unreadable(place: str, error: Exception, remedy: str) -> DataError:
    """The error of an unreadable image; without advice to restore it if only its form is unexpected."""
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
