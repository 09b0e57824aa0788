"""Files of small untrained learngenes."""

import torch

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.initialization.expansion import take_layers

BIG = ViTArchitecture(6, 24, 3, patch_size=4, img_size=16, num_classes=5)
TASK = {"name": "shapes", "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.2, 0.2]}


def write_ancestor(path: str) -> str:
    """A whole network of architecture ``BIG``."""
    torch.manual_seed(0)
    Learngene("ancestor", BIG, dict(BIG.build().state_dict()), task=TASK).save(path)
    return path


def write_sws(path: str) -> str:
    """Three layers of SWS, for stages of two layers each."""
    torch.manual_seed(1)
    aux = BIG.replace(stages=(2, 2, 2))
    Learngene("sws", aux, take_layers(aux.build().state_dict(), [0, 2, 4]), task=TASK).save(path)
    return path
