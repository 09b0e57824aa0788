"""Use the clients of the Hugging Face hub: where it does not answer within seconds, they read their cache alone."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Thread
from typing import Any

from huggingface_hub import constants, get_session

from lgx.errors import UserError
from lgx.host.failures import reason_of

SECONDS = 5.0
"""How long the hub may take to answer before it counts as out of reach; its own clients try for minutes."""
_STALLED = 30.0
"""How long a hub that answered before may take for each further answer; its client would wait without an end."""


@cache
def failure_of(address: str, minute: int) -> str:
    """Why the hub at an address does not answer a request of a few bytes, asked once a minute; empty if it answers."""
    reasons = [f"no answer from {address} within {SECONDS:.0f} s"]

    def ask() -> None:
        try:
            get_session().head(address, timeout=SECONDS)
            reasons.append("")
        except Exception as error:  # those of the client's HTTP library, which is not the same in all of its versions
            reasons.append(reason_of(error))

    asking = Thread(target=ask, daemon=True)  # in a thread, because no timeout ends the resolution of a name
    asking.start()
    asking.join(SECONDS)
    return reasons[-1]


@contextmanager
def hub_or_cache(what: str, remedy: str) -> Iterator[str]:
    """Use the hub's clients inside the block: where the hub is out of reach, they are in offline mode.

    Args:
        what: What the block loads, for the message.
        remedy: What a user without a network can do.

    Yields:
        Why the hub is out of reach; empty if it answers.
    """
    reason = (
        "HF_HUB_OFFLINE is set"
        if constants.HF_HUB_OFFLINE
        else failure_of(constants.ENDPOINT, int(time.monotonic() // 60))
    )
    session: Any = get_session()
    session.timeout = _STALLED
    # The clients read the mode from these modules whenever they load something.
    modules: list[Any] = [constants, *filter(None, [sys.modules.get("datasets.config")])]
    before = [module.HF_HUB_OFFLINE for module in modules]
    for module in modules if reason else ():
        module.HF_HUB_OFFLINE = True
    try:
        yield reason
    except Exception as error:  # each client has errors of its own for what its cache lacks
        if isinstance(error, UserError) or not reason:
            raise
        raise UserError(
            f"{what}: is not in the cache, and the Hugging Face hub cannot be reached ({reason}); without a network, "
            f"{remedy}"
        ) from error
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value
