"""Use the Hugging Face hub's clients: without an answer within seconds, they only read their cache."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from huggingface_hub import constants, get_session

from lgx.errors import UserError
from lgx.host.failures import reason_of

SECONDS = 5.0
"""Seconds without an answer after which the hub counts as unreachable; its clients try for minutes."""


@cache
def failure_of(address: str) -> str:
    """Why the hub at an address does not answer a small request, sent once by a process; empty if it answers."""
    try:
        get_session().head(address, timeout=SECONDS)
    except Exception as error:  # errors of the client's HTTP library, which differs between versions
        return reason_of(error)
    return ""


@contextmanager
def hub_or_cache(what: str, remedy: str) -> Iterator[str]:
    """Use the hub's clients inside the block; if the hub is unreachable, in offline mode.

    Args:
        what: Name of what the block loads, for the message.
        remedy: What a user without a network can do.

    Yields:
        Why the hub is unreachable; empty if it answers.
    """
    reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else failure_of(constants.ENDPOINT)
    # The clients read the mode from these modules whenever they load something.
    modules: list[Any] = [constants, *filter(None, [sys.modules.get("datasets.config")])]
    before = [module.HF_HUB_OFFLINE for module in modules]
    for module in modules if reason else ():
        module.HF_HUB_OFFLINE = True
    try:
        yield reason
    except Exception as error:  # each client has its own errors for missing files
        if isinstance(error, UserError) or not reason:
            raise
        raise UserError(
            f"{what}: is not in the cache, and the Hugging Face hub cannot be reached ({reason}); without a network, "
            f"{remedy}"
        ) from error
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value
