"""A terminal's alphabet ends no command."""

import io
import sys

import pytest

from lgx.cli import main


def test_what_a_terminal_cannot_print_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr("lgx.cli.run_command", lambda argv: print("6 × é", flush=True))
    main(["doctor"])
    assert stream.buffer.getvalue() == b"6 \\xd7 \\xe9\n"
