"""A descendant whose size an initializer cannot fill is refused in a sentence."""

from functools import partial

import pytest

from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import Pretrained, StagewiseExpansion, VanillaLG, WeightSelection, WeightSubcloning
from lgx.methods.structured_pruning.initializer import StructuredPruning
from tests.support.untrained_learngenes import BIG

HEADS = "has 3 attention heads, the descendant 4; write num_heads=3"
REFUSED = [
    (Pretrained, {"depth": 5}, "choose the same depth"),
    (Pretrained, {"num_heads": 4}, HEADS),
    (VanillaLG, {"num_heads": 4}, HEADS),
    (partial(VanillaLG, layers=6), {"depth": 5}, "layers must be between 1 and 5"),
    (WeightSelection, {"depth": 7}, "choose at most"),
    (WeightSubcloning, {"depth": 7}, "the descendant has 7 layers, but .* only 6"),
    (WeightSubcloning, {"embed_dim": 32, "num_heads": 2}, "must not be wider, but has 32 of embed_dim, the source 24"),
    (WeightSubcloning, {"num_heads": 2}, "it must not have more heads or wider ones"),
    (WeightSubcloning, {"mlp_ratio": 5.0}, "must not be wider, but has 120 of hidden neurons"),
    (StructuredPruning, {"depth": 7}, "choose at most"),
    (StructuredPruning, {"embed_dim": 48, "num_heads": 6}, "choose the embed_dim"),
    (StructuredPruning, {"embed_dim": 12}, "choose num_heads"),
    (StagewiseExpansion, {"num_classes": 9}, "5 classes.* 9; .*--head 9"),
    (StagewiseExpansion, {"depth": 2}, "depth 2.*3 layers"),
    (StagewiseExpansion, {"in_chans": 1}, "patch_embed.proj.weight .*in_chans"),
]


@pytest.mark.parametrize(("kind", "change", "sentence"), REFUSED)
def test_a_size_that_an_initializer_cannot_fill_is_refused(ancestor_file, sws_file, kind, change, sentence):
    source = sws_file if kind is StagewiseExpansion else ancestor_file
    with pytest.raises(UserError, match=sentence):
        initialize(BIG.replace(**change), kind(source))
