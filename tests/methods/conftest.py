"""An ancestor without head."""

import pytest
import torch

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene


@pytest.fixture(scope="session")
def headless(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An ancestor without head, of another width and another patch size."""
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("headless") / "headless.learngene.safetensors"
    architecture = ViTArchitecture(3, 24, 3, patch_size=2, img_size=16, num_classes=0)
    Learngene("ancestor", architecture, dict(architecture.build().state_dict())).save(path)
    return str(path)
