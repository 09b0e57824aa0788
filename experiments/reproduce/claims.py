"""Claims of papers that one method is better than another: ``tal > logah, untrained``."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from lgx.errors import UserError

When = Literal["untrained", "trained", ""]
Depth = Literal["deepest", "shallowest", ""]
Pairing = Literal["same networks", "own epochs", "own networks"]
"""Which measurements of two methods are compared.

- ``same networks``: those of one task, architecture and number of epochs.
- ``own epochs``: those of one task and architecture, each after the last epoch of its own training.
- ``own networks``: those of one task, each as ``own epochs`` and in the mean over its own architectures: auxiliary nets
  that share their layers in different ways have different architectures.
"""
_STORED = "stored"
_FORM = (
    "expected 'METHOD > METHOD', and perhaps ', untrained', ', trained', ', own epochs' or ', own networks'; or "
    "'METHOD > METHOD, stored', 'METHOD untrained > METHOD trained' or 'METHOD deepest > METHOD shallowest'"
)


@dataclass(frozen=True)
class Side:
    """One side of a claim: which networks of a method it is about.

    Attributes:
        method: Name of the method.
        when: ``untrained``, ``trained``, or empty for both.
        depth: ``deepest`` or ``shallowest`` for the network of each task with the most or fewest layers; empty for all.
        word: What the claim says after the method's name.
    """

    method: str
    when: When
    depth: Depth
    word: str

    def covers(self, epochs: int | None) -> bool:
        """Whether it is about networks after this many epochs; None means that the paper does not state them."""
        return not self.when or (self.when == "untrained") == (epochs == 0)

    def __str__(self) -> str:
        return f"{self.method} {self.word}".rstrip()


@dataclass(frozen=True)
class Claim:
    """A paper's claim that one method is better than another.

    Attributes:
        better: Name of the method that is better according to the paper.
        worse: Name of the other method.
        when: ``untrained``, ``trained``, or empty for both.
        pairing: Which of their measurements are compared.
        words: What distinguishes the networks of the two sides: ``untrained`` and ``trained``, or ``deepest`` and
            ``shallowest``; empty where nothing does.
        is_stored: Whether it is about parameters: the better method stores fewer to start all descendants.
    """

    better: str
    worse: str
    when: When = ""
    pairing: Pairing = "same networks"
    words: tuple[str, str] = ("", "")
    is_stored: bool = False

    @classmethod
    def parse(cls, text: str) -> "Claim":
        """Read a claim.

        ``tal > logah, untrained``; ``tal > random, trained, own epochs``; ``sws > pretrained, stored``;
        ``sws untrained > random trained``; ``sws deepest > sws shallowest, untrained``.

        Raises:
            UserError: If the text has another form.
        """
        sides, *rest = str(text).split(", ")
        word = "|".join(filter(None, (*get_args(When), *get_args(Depth))))
        found = re.fullmatch(rf"(\w+)(?: ({word}))? > (\w+)(?: ({word}))?", sides)
        when = [word for word in get_args(When) if word and word in rest]
        pairing = [words for words in get_args(Pairing) if words in rest]
        is_stored = rest == [_STORED]
        if found is None or len(when) > 1 or len(pairing) > 1 or len(rest) != len(when) + len(pairing) + is_stored:
            raise UserError(f"claim {str(text)[:80]!r}: {_FORM}")
        words = (found[2] or "", found[4] or "")
        of_stages, of_depths = ({*words} <= {*get_args(kind)} - {""} for kind in (When, Depth))
        clash = is_stored or pairing or (of_stages and when)
        if any(words) and (clash or not (of_stages or of_depths)):
            raise UserError(f"claim {str(text)[:80]!r}: {_FORM}")
        implied: Pairing = "own epochs" if of_stages else "own networks" if of_depths else "same networks"
        return cls(found[1], found[3], next(iter(when), ""), next(iter(pairing), implied), words, is_stored)

    @property
    def sides(self) -> tuple[Side, Side]:
        """The better and the worse side."""
        return _side(self.better, self.words[0], self.when), _side(self.worse, self.words[1], self.when)

    def __str__(self) -> str:
        is_implied = any(self.words) or self.pairing == "same networks"
        one, other = self.sides
        parts = [f"{one} > {other}", self.when, "" if is_implied else self.pairing, _STORED * self.is_stored]
        return ", ".join(filter(None, parts))


def _side(method: str, word: str, when: When) -> Side:
    stages: tuple[When, ...] = get_args(When)
    depths: tuple[Depth, ...] = get_args(Depth)
    own = next((stage for stage in stages if stage and stage == word), when)
    return Side(method, own, next((depth for depth in depths if depth == word), ""), word)
