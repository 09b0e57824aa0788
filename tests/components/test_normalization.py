"""Inputs are converted from one normalization to another."""

import torch

from lgx.components.normalization import renormalize
from lgx.core.task import Task

TASK = Task("shapes", 5, in_chans=3, img_size=32, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))


def test_the_pixels_stay_the_same():
    pixels = torch.rand(2, 3, 4, 4)

    def normalized(mean, std):
        return (pixels - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)

    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    torch.testing.assert_close(renormalize(normalized(TASK.mean, TASK.std), TASK, mean, std), normalized(mean, std))


def test_the_same_statistics_return_the_same_tensor():
    inputs = torch.randn(2, 3, 4, 4)
    assert renormalize(inputs, TASK, TASK.mean, TASK.std) is inputs
