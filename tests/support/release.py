"""One version in all places that name it: ``python -m tests.support.release v1.2.3``."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = {
    "lgx/core/version.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "CHANGELOG.md": r"^## \[(\d.*?)\]",  # the newest release
}
"""Files that name the version, and where in them."""


def differences(tag: str, root: Path = ROOT) -> list[str]:
    """Places whose version is not that of the tag, each as a sentence; empty if a release can be made."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        return [f"tag {tag!r}: expected v and a version, e.g. v1.2.3"]
    found = {place: re.search(pattern, (root / place).read_text(), re.MULTILINE) for place, pattern in PLACES.items()}
    versions = {place: match[1] if match else "no version" for place, match in found.items()}
    return [f"{place}: has {version}, the tag is {tag}" for place, version in versions.items() if version != tag[1:]]


if __name__ == "__main__":
    wrong = differences(sys.argv[1] if len(sys.argv) > 1 else "")
    print("\n".join(wrong) or f"{sys.argv[1]}: all places agree")
    sys.exit(bool(wrong))
