"""Find out within seconds whether the Hugging Face hub answers; without it, its clients read their cache alone."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from threading import Thread
from typing import Any

from huggingface_hub import constants, get_session

from lgx.errors import UserError
from lgx.host.failures import reason_of

SECONDS = 5.0
"""How long the hub may take to answer before it counts as out of reach; its own clients try for minutes."""

_STALLED = 30.0
"""How long a hub that answered before may take for each further answer."""

_REMEMBERED = 60.0
"""Seconds for which a failure counts, so that a run that reads several sets waits once."""

_failures: dict[str, tuple[float, str]] = {}
"""Address of the hub -> when it did not answer, and why."""


def hub_failure() -> str | None:
    """Why the hub cannot be reached; None if it answers.

    One request of a few bytes is made, with the settings of the hub's client: its address, proxy and offline mode.
    """
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    address = constants.ENDPOINT
    known = _failures.get(address)
    if known is not None and time.monotonic() - known[0] < _REMEMBERED:
        return known[1]
    reason = _ask(address)
    if reason is not None:
        _failures[address] = time.monotonic(), reason
    return reason


@contextmanager
def hub_or_cache(what: str, remedy: str) -> Iterator[None]:
    """Use the hub's clients inside the block: where the hub is out of reach, they read their cache alone.

    Args:
        what: What the block loads, for the message.
        remedy: What a user without a network can do.

    Raises:
        UserError: If the hub is out of reach and the block fails. Errors of a hub that answers are passed on.
    """
    reason = hub_failure()
    if reason is None:
        limit_waiting()
        yield
        return
    try:
        with _offline():
            yield
    except UserError:
        raise
    except Exception as error:  # each client has errors of its own for what its cache lacks
        raise UserError(f"{unreachable(what, reason)}; without a network, {remedy}") from error


def limit_waiting() -> None:
    """Let the hub's client give up on a request that stalls; by its own settings it waits without an end."""
    session: Any = get_session()
    session.timeout = _STALLED


def unreachable(what: str, reason: str) -> str:
    """The first half of a sentence on something that is neither in the cache nor can be downloaded."""
    return f"{what}: is not in the cache, and the Hugging Face hub cannot be reached ({reason})"


def _ask(address: str) -> str | None:
    """Ask in a thread, because no timeout ends the resolution of a name."""
    answers: Queue[str | None] = Queue()

    def ask() -> None:
        try:
            get_session().head(address, timeout=SECONDS)
            answers.put(None)
        except Exception as error:  # those of the client's HTTP library, which is not the same in all of its versions
            answers.put(reason_of(error))

    Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=SECONDS)
    except Empty:
        return f"no answer from {address} within {SECONDS:.0f} s"


@contextmanager
def _offline() -> Iterator[None]:
    """Set the offline mode of the hub's clients, which they read from these modules whenever they load something."""
    modules = [constants, *filter(None, [sys.modules.get("datasets.config")])]
    before = [module.HF_HUB_OFFLINE for module in modules]
    for module in modules:
        module.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value  # type: ignore[attr-defined]
