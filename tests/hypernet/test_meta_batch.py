"""The loss over a meta-batch of architectures."""

import torch

from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.meta_batch import meta_batch_loss
from tests.support.hypernet import TINY, VIT


def test_losses_and_norms_are_means_over_the_architectures():
    torch.manual_seed(0)
    hypernet, images = Hypernet(HypernetConfig(**TINY)).double(), torch.randn(3, 3, 16, 16).double()
    both = [VIT, VIT.replace(depth=3, embed_dim=60, num_heads=4)]

    def losses(architectures):
        return torch.stack(meta_batch_loss(hypernet, architectures, images, lambda logits: logits.square().mean()))

    torch.testing.assert_close(losses(both), (losses(both[:1]) + losses(both[1:])) / 2)
