"""``initialize``: images of another size, heads of another number of classes."""

import torch

from lgx.artifacts.learngene import Learngene
from lgx.initialization import initialize
from lgx.methods import Pretrained
from tests.support.untrained_learngenes import BIG


def test_another_image_size_resamples_positions(ancestor_file):
    start = initialize(BIG.replace(img_size=32), Pretrained(ancestor_file))
    assert start.model.pos_embed.shape == (1, 65, 24)
    assert start.random == ()
    assert torch.equal(start.model.pos_embed[:, 0], Learngene.load(ancestor_file).tensors["pos_embed"][:, 0])
