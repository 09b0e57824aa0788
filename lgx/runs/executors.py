"""What a place where runs work does, and the nearest one: this process."""

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from lgx.errors import Preempted, UserError
from lgx.runs.work import Work, do_here


@dataclass(frozen=True)
class Failure:
    """How a run failed.

    Attributes:
        reason: In a few words.
        log: File that tells more; None where it was printed.
    """

    reason: str
    log: str | None = None


Outcome = Literal["finished", "elsewhere"] | Failure
"""How a run ended; ``elsewhere`` if another process was found working on it."""


@dataclass(frozen=True)
class Ticket:
    """A run that was submitted.

    Attributes:
        work: The run.
        job: What the executor knows it by.
        slot: Its number among those that run beside it.
    """

    work: Work
    job: Any
    slot: int = 0


class Executor(Protocol):
    """A place where runs work.

    Attributes:
        limit: Runs that may be submitted and not ended.
        interval: Seconds between two looks at them.
    """

    limit: int
    interval: float

    def submit(self, works: Sequence[Work]) -> list[Ticket]:
        """Start runs."""

    def poll(self, ticket: Ticket) -> Outcome | None:
        """How a run ended; None while it goes on. Not to be asked again after that."""

    def cancel(self, tickets: Sequence[Ticket]) -> None:
        """End runs."""


class Here:
    """This process: one run after another, its output among ours."""

    limit = 1
    interval = 1.0

    def submit(self, works: Sequence[Work]) -> list[Ticket]:
        """Run them; what a run raises is printed, and is its failure."""
        return [Ticket(work, self._outcome(work)) for work in works]

    def poll(self, ticket: Ticket) -> Outcome | None:
        """How it ended."""
        outcome: Outcome = ticket.job
        return outcome

    def cancel(self, tickets: Sequence[Ticket]) -> None:
        """Nothing runs any more."""

    def _outcome(self, work: Work) -> Outcome:
        try:
            return "finished" if do_here(work) else "elsewhere"
        except Preempted:  # the whole process shall end
            raise
        except UserError as error:
            print(f"lgx {work.arguments[0]}: {error}", file=sys.stderr, flush=True)
            return Failure(str(error))
        except Exception as error:
            traceback.print_exc()
            return Failure(f"{type(error).__name__}: {error}")
