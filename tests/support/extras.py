"""Packages of the optional extras."""

from types import ModuleType

import pytest


def import_transformers() -> ModuleType:
    """Import transformers, or skip the test (the whole file if called at its top)."""
    return pytest.importorskip("transformers", reason="needs the nlp extra: pip install 'lgx[nlp]'")
