"""Write all pages: ``make pages``."""

import sys
from pathlib import Path

from experiments.pages.render import Pages
from experiments.pages.values import Refuted


def main() -> int:
    """Write every page; the number of pages that could not be rendered."""
    pages, failed = Pages(), 0
    for name in pages.names():
        try:
            text = pages.render(name)
        except Refuted as refuted:
            print(refuted, file=sys.stderr)
            failed += 1
            continue
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
