"""Packages of the optional extras."""

from types import ModuleType

import pytest


def import_transformers() -> ModuleType:
    """Import transformers, or skip the test (the whole file if called at its top)."""
    return pytest.importorskip("transformers", reason="needs the nlp extra: pip install 'lgx[nlp]'")


def need_onnx() -> None:
    """Skip the test where ONNX files can neither be written nor run."""
    pytest.importorskip("onnxruntime", reason="needs the export extra: pip install 'lgx[export]'")


def need_torch_pruning() -> None:
    """Skip the test without torch-pruning."""
    pytest.importorskip("torch_pruning", reason="needs the pruning extra: pip install 'lgx[pruning]'")
