"""Claims of papers that one method is better than another: ``tal > logah, untrained``."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from lgx.errors import UserError

When = Literal["untrained", "trained", ""]
Pairing = Literal["same networks", "own epochs", "own networks"]
"""Which measurements of two methods are compared.

- ``same networks``: those of one task, architecture and number of epochs.
- ``own epochs``: those of one task and architecture, each after the last epoch of its own training.
- ``own networks``: those of one task, each as ``own epochs`` and in the mean over its own architectures: auxiliary nets
  that share their layers in different ways have different architectures.
"""
_FORM = "expected 'METHOD > METHOD', and perhaps ', untrained', ', trained', ', own epochs' or ', own networks'"


@dataclass(frozen=True)
class Claim:
    """A paper's claim that one method is better than another.

    Attributes:
        better: Name of the method that is better according to the paper.
        worse: Name of the other method.
        when: ``untrained``, ``trained``, or empty for both.
        pairing: Which of their measurements are compared.
    """

    better: str
    worse: str
    when: When = ""
    pairing: Pairing = "same networks"

    @classmethod
    def parse(cls, text: str) -> "Claim":
        """Read ``tal > logah``, ``tal > logah, untrained`` or ``tal > random, trained, own epochs``.

        Raises:
            UserError: If the text has another form.
        """
        methods, *rest = str(text).split(", ")
        found = re.fullmatch(r"(\w+) > (\w+)", methods)
        when = [word for word in get_args(When) if word and word in rest]
        pairing = [words for words in get_args(Pairing) if words in rest]
        if found is None or len(when) > 1 or len(pairing) > 1 or len(rest) != len(when) + len(pairing):
            raise UserError(f"claim {str(text)[:80]!r}: {_FORM}")
        return cls(found[1], found[2], *when or ("",), *pairing or ("same networks",))

    def __str__(self) -> str:
        parts = [f"{self.better} > {self.worse}", self.when, "" if self.pairing == "same networks" else self.pairing]
        return ", ".join(filter(None, parts))

    def covers(self, epochs: int | None) -> bool:
        """Whether it is about networks after this many epochs; None means that the paper does not state them."""
        return not self.when or (self.when == "untrained") == (epochs == 0)
