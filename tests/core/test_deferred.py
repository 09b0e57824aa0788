"""Libraries that other packages import without using them are loaded when they are used."""

import subprocess
import sys

import pytest

CODE = """
import sys
from lgx.core.deferred import defer_unused_imports
defer_unused_imports()
import timm
assert timm.utils.summary.HAS_WANDB
assert "wandb.sdk" not in sys.modules
import wandb
assert wandb.__version__ and wandb.sdk is sys.modules["wandb.sdk"]
defer_unused_imports()
assert sys.modules["wandb"] is wandb
"""


def test_timm_does_not_load_wandb_and_whoever_uses_it_does():
    pytest.importorskip("wandb")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
