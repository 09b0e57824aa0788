"""Fixtures of the tests of results."""

from pathlib import Path

import pytest

from tests.results.helpers import DEPTHS, GAINS, SEEDS, add_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for method in GAINS:
        for depth in DEPTHS:
            for seed in SEEDS:
                add_run(tmp_path / f"runs/{method}/{depth}/{seed}", method, depth, seed, curves=depth == 4)
    return tmp_path / "runs"
