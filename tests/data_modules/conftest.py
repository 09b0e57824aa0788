"""Fixtures of the tests of data modules."""

from pathlib import Path

import pytest

from tests.support.extras import import_transformers
from tests.support.fake_text import write_vocabulary


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary in GPT-2's format: all bytes, three merges, end of text."""
    import_transformers()
    return write_vocabulary(tmp_path_factory.mktemp("gpt2_vocab"))
