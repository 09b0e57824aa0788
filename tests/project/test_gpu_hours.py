"""GPU hours of the index in experiments/README.md are those that `lgx plan` computes.

Lines with TAL's second table are left out: planning its sweep takes longer than all others together.
"""

import re
from functools import cache

import pytest

from lgx.planning import sweep_hours
from tests.support.paths import EXPERIMENTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@cache
def hours(file: str) -> float:
    return sweep_hours(EXPERIMENTS / file, 312, 0.4, "ham10000=7211").hours


def test_the_index_gives_the_hours_of_its_sweeps():
    text = (EXPERIMENTS / "README.md").read_text()
    assert "`--dry_run --tflops 312 --samples ham10000=7211`" in " ".join(text.split())
    found = 0
    for line in text.split("## Index")[1].split("Other experiments")[0].splitlines():
        files = re.findall(r"\]\(((?:tal|lsamd|sws|text)/\w+\.yaml)\)", line)
        if files and "tal/table2.yaml" not in files:
            total = sum(map(hours, files))
            assert line.split(" | ")[3] == (f"{total:.0f}" if total >= 1 else f"{total:.2f}"), line
            found += 1
    assert found == 19
