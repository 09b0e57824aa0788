"""One sentence for each error of the Hugging Face hub's client."""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants, get_token
from huggingface_hub.errors import (
    BadRequestError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from lgx.errors import UserError
from lgx.host.failures import is_full_memory, reason_of
from lgx.host.hub import hub_failure

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


class OutOfReach(UserError):
    """The hub does not answer, or the client is in offline mode."""


def check_hub(place: str) -> None:
    """Find out within seconds whether the hub answers; its client tries for minutes.

    Args:
        place: What the user named.

    Raises:
        OutOfReach: If it does not answer, or the client is in offline mode.
    """
    if constants.HF_HUB_OFFLINE:
        raise _offline(place)
    if reason := hub_failure():
        raise _unreachable(place, reason)


@contextmanager
def hub_errors(place: str) -> Iterator[None]:
    """Raise a UserError for what the hub's client raises in the block.

    Args:
        place: What the user named.

    Raises:
        UserError: If the block raises an error of the hub, of the network or of HTTP.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # those of the client's HTTP library, which is not the same in all of its versions
        if is_full_memory(error):
            raise
        raise _explained(place, error) from error


def _explained(place: str, error: Exception) -> UserError:
    if isinstance(error, GatedRepoError):  # a kind of RepositoryNotFoundError
        return UserError(f"{place}: its owner grants access on request; ask for it on the hub, and {LOG_IN}")
    if isinstance(error, RepositoryNotFoundError):
        if get_token() is None:
            return UserError(f"{place}: no such repository, or a private one; check the name, or {LOG_IN}")
        return UserError(f"{place}: no such repository, or the token may not read it; check the name and the token")
    if isinstance(error, RevisionNotFoundError):
        return UserError(f"{place}: the repository has no such revision; give a branch, a tag or a commit after @")
    if isinstance(error, LocalEntryNotFoundError):  # a kind of EntryNotFoundError
        return OutOfReach(f"{place}: the hub sent no file ({reason_of(error)}); try again later")
    if isinstance(error, EntryNotFoundError):
        return UserError(f"{place}: the repository has no such file; give one that it lists")
    if isinstance(error, HFValidationError):
        return UserError(f"{place}: no valid name of a repository ({reason_of(error)})")
    if isinstance(error, OfflineModeIsEnabled):
        return _offline(place)
    if isinstance(error, HfHubHTTPError):
        return _answered(place, error)
    return _unreachable(place, reason_of(error))


def _offline(place: str) -> OutOfReach:
    return OutOfReach(f"{place}: is not in the cache, and HF_HUB_OFFLINE forbids requests; unset it")


def _unreachable(place: str, reason: str) -> OutOfReach:
    return OutOfReach(
        f"{place}: the Hugging Face hub cannot be reached ({reason}); without a network give a local file"
    )


def _answered(place: str, error: HfHubHTTPError) -> UserError:
    """The sentence for another answer of the server."""
    status = error.response.status_code
    if status == 401:
        return UserError(f"{place}: the hub refuses the token; {LOG_IN}")
    if status == 403:
        return UserError(f"{place}: the token has no right to do this; make one with the right to write")
    if isinstance(error, BadRequestError):
        return UserError(f"{place}: the hub refuses the request ({error.server_message or reason_of(error)})")
    if status >= 500 or status == 429:
        return OutOfReach(f"{place}: the Hugging Face hub answers with error {status}; try again later")
    return UserError(f"{place}: the Hugging Face hub answers with error {status}; check the name")
