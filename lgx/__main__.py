"""``python -m lgx``."""

from lgx.cli import program

program()
