"""Fixtures of the tests with hostile files."""

from pathlib import Path

import pytest
import torch

from tests.support.hostile import Payload


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A file that exists only if hostile code has run."""
    return tmp_path / "evidence"


@pytest.fixture
def evil(tmp_path: Path, evidence: Path) -> Path:
    """A checkpoint that runs code when it is unpickled."""
    path = tmp_path / "evil.ckpt"
    torch.save({"state_dict": Payload(evidence), "lgx": {}, "pytorch-lightning_version": "2"}, path)
    return path
