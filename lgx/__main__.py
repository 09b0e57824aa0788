"""``python -m lgx``."""

from lgx.cli import main

main()
