"""What Lightning and the data modules do differently on a GPU, without one: tensors' device, and pixels in batches."""

from contextlib import contextmanager

import pytest
import torch
from lightning.pytorch.strategies import SingleDeviceStrategy

from data_modules.image_module import ImageDataModule
from tests.support.command_line import arguments, lgx, ok


class Unnormalized:
    """A data module whose network is on another device, which normalizes the pixels."""

    def __init__(self, module):
        self.info, self.normalize = module.info, lambda batch: batch
        self.labels, self.trainer = module.labels, None


@contextmanager
def on_another_device(self, empty_init=None):
    with torch.device("meta"):
        yield


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("Nested", ["--model.least_depth=1", "--data.labels=false"]),
        ("Family", ["--model.sizes=[depth=2]"]),
        ("SWS", ["--model.stages=[2,2]", "--model.start=middle"]),
        pytest.param("TLEG", ["--model.start=fit"], marks=pytest.mark.slow),
        pytest.param("LeTs", ["--model.narrow_heads=1", "--model.narrow_depth=2"], marks=pytest.mark.slow),
    ],
)
def test_a_network_is_built_from_an_ancestor(images, ancestor, tmp_path, monkeypatch, method, options):
    monkeypatch.setattr(SingleDeviceStrategy, "tensor_init_context", on_another_device)
    collate = ImageDataModule.collate
    monkeypatch.setattr(ImageDataModule, "collate", lambda self, examples: collate(Unnormalized(self), examples))
    given = [*options, f"--model.ancestor={ancestor}/best.learngene.safetensors", "--name=r"]
    ok(lgx(*arguments("fit", method, images, tmp_path, *given)))
