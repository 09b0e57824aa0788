"""Imports that other packages make without using them are left out."""

import subprocess
import sys

import pytest

CODE = """
import sys
from lgx.host.unused_imports import skip_unused_imports
skip_unused_imports()
skip_unused_imports()
import timm
assert not any(name.startswith("wandb") for name in sys.modules)
import wandb
assert wandb.__version__
from wandb.sdk.lib import RunDisabled

import torchmetrics
assert not any(name.startswith(("transformers", "scipy.signal")) for name in sys.modules)
from torchmetrics.functional.text import bert
assert bert.AutoModel.from_config  # a stand-in imports what it stands for
import scipy.signal, transformers
assert scipy.signal.windows.hann(4).shape == (4,) and scipy.signal is sys.modules["scipy.signal"]
assert isinstance(transformers.AutoModel, type)
"""


def test_timm_and_torchmetrics_load_less_and_whoever_uses_the_rest_gets_it():
    pytest.importorskip("wandb")
    pytest.importorskip("transformers")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
