"""Image transforms."""

import numpy as np
import pytest
from PIL import Image

from lgx.core.eval_transforms import eval_transform
from lgx.core.task import Task
from lgx.errors import UserError


def test_sixteen_bit_gray_keeps_its_values():
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    for channels in (1, 3):
        task = Task("x", 2, in_chans=channels, img_size=8, mean=(0.0,) * channels, std=(1.0,) * channels)
        tensor = eval_transform(task)(Image.fromarray(values))
        np.testing.assert_allclose(tensor[0].numpy(), values / 65535, atol=0.01)
    with pytest.raises(UserError, match="mode F"):
        eval_transform(task)(Image.fromarray(values.astype(np.float32)))
