"""The command lines that make a table, run in order; finished ones are skipped."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lgx.cli import main as lgx
from lgx.errors import UserError


@dataclass(frozen=True)
class Step:
    """One command line of lgx.

    Attributes:
        arguments: The words after ``lgx``.
        makes: File or folder whose existence means that the step is finished; None for commands that check this
            themselves: a sweep skips finished runs, and existing data are only counted.
    """

    arguments: tuple[str, ...]
    makes: str | None = None

    @classmethod
    def parse(cls, written: object) -> "Step":
        """Read a command line, or ``{run: COMMAND LINE, makes: PATH}``.

        The path after ``--out`` is the default of ``makes``.

        Raises:
            UserError: If it is neither, or the command line is empty.
        """
        entry: dict[str, Any] = written if isinstance(written, dict) else {"run": written}
        line = entry.get("run")
        if not isinstance(line, str) or not line.strip() or entry.keys() - {"run", "makes"}:
            raise UserError(f"step {str(written)[:80]!r}: expected a command line, or one as run: and a path as makes:")
        try:
            words = tuple(shlex.split(line))
        except ValueError as error:
            raise UserError(f"step {line[:80]!r}: {error}") from error
        out = words[words.index("--out") + 1] if "--out" in words[:-1] else None
        return cls(words, entry.get("makes", out))

    @property
    def done(self) -> bool:
        """Whether the file or folder that it makes exists."""
        return self.makes is not None and Path(self.makes).exists()

    def __str__(self) -> str:
        return f"lgx {shlex.join(self.arguments)}"


def run_steps(steps: Sequence[Step]) -> None:
    """Run the steps that are not finished, in their order; what a command raises ends them."""
    for number, step in enumerate(steps, start=1):
        done = "  (done)" if step.done else ""
        print(f"\n[{number}/{len(steps)}] {step}{done}", flush=True)
        if done:
            continue
        began = time.monotonic()
        lgx(step.arguments)
        print(f"[{number}/{len(steps)}] {time.monotonic() - began:,.0f} s", flush=True)
