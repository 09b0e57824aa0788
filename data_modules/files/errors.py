"""The error of an unreadable file: one sentence, also from a loader process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lgx.errors import UserError
from lgx.host.failures import is_disk_full
from lgx.host.safety import error_line


class DataError(UserError):
    """A :class:`UserError` that remains one sentence when it comes from a loader process.

    DataLoader builds the exception of a worker again from the text of its whole traceback; this class keeps only the
    sentence at the end.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rstrip().rsplit("DataError: ", 1)[-1])


@contextmanager
def decoding(place: str, remedy: str) -> Iterator[None]:
    """Turn an error of decoding an image into one sentence; without ``remedy`` if only its form is unexpected."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except UserError as error:
        raise DataError(f"{place}: {error}") from error
    except Exception as error:
        raise DataError(f"{place} cannot be decoded ({error_line(error)}); {remedy}") from error


def guarded(build: Callable[[], Any], what: str, remedy: str) -> Any:
    """Call ``build``, which opens data, and turn an exception of a reader into one sentence; a full disk passes."""
    try:
        return build()
    except (UserError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_disk_full(error):
            raise
        raise UserError(f"{what} is incomplete or corrupted ({error_line(error)}); {remedy}") from error
