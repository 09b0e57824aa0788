"""Imports that other packages make without using them are left out."""

import subprocess
import sys

import pytest

CODE = """
import sys
from lgx.core.unused_imports import skip_unused_imports
skip_unused_imports()
skip_unused_imports()
import timm
assert not any(name.startswith("wandb") for name in sys.modules)
import wandb
assert wandb.__version__
from wandb.sdk.lib import RunDisabled
"""


def test_timm_does_not_load_wandb_and_whoever_uses_it_does():
    pytest.importorskip("wandb")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
