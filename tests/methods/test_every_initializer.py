"""What every initializer of the registry must do, also those that are added later; sizes that one cannot fill."""

from functools import partial

import pytest

from lgx.errors import UserError
from lgx.initialization import Origin, initialize
from lgx.methods import (
    Pretrained,
    RandomStart,
    StagewiseExpansion,
    VanillaLG,
    WeightSelection,
    WeightSubcloning,
    registry,
)
from lgx.methods.initializers import initializer_for
from lgx.methods.structured_pruning.initializer import StructuredPruning
from tests.support.extras import need_torch_pruning
from tests.support.learngenes import NETWORK, TASK, initializers_with_source, learners_of, save_source, start_from
from tests.support.untrained_learngenes import BIG

CLASSES = registry.initializer_classes()
PAIRS = [(name, method) for name in initializers_with_source() for method in learners_of(CLASSES[name])]


@pytest.fixture(params=PAIRS, ids="-".join)
def initializer(request, tmp_path):
    name, method = request.param
    return start_from(CLASSES[name], save_source(CLASSES[name], tmp_path / "renamed.safetensors", method))


def test_descendants_inherit_the_normalization_and_the_classes_of_the_source(initializer):
    origin = initializer.origin()
    assert origin.mean == tuple(TASK["mean"])
    assert origin.std == tuple(TASK["std"])
    assert origin.num_classes == TASK["num_classes"]
    assert origin.kind == NETWORK.kind


def test_a_start_without_a_source_inherits_nothing():
    starts = [kind() for kind in registry.initializer_classes().values() if not kind.reads_source]
    assert {"random", "mimetic"} <= {start.method for start in starts}
    assert all(start.origin() == Origin() and start.stored_parameters == 0 for start in starts)


def test_a_start_takes_parameters_from_the_source_and_says_what_it_stores(initializer):
    start = initialize(NETWORK, initializer, head="new")
    assert start.taken
    assert start.stored == initializer.stored_parameters > 0


def test_the_registry_finds_the_method_in_the_file(ancestor_file, sws_file):
    assert isinstance(initializer_for(sws_file), StagewiseExpansion)
    assert isinstance(initializer_for(ancestor_file), Pretrained)
    assert isinstance(initializer_for(ancestor_file, "weight_selection"), WeightSelection)
    assert isinstance(initializer_for(), RandomStart)
    for source, method, words in [
        (None, "sws", "needs --source"),
        (ancestor_file, "sws", "a learngene of ancestor"),
        (sws_file, "swss", "unknown"),
        (sws_file, "random", "leave out --source"),
    ]:
        with pytest.raises(UserError, match=words):
            initializer_for(source, method)


HEADS = "has 3 attention heads, but the descendant has 4; write num_heads=3"
REFUSED = [
    (Pretrained, {"depth": 5}, "choose the same depth"),
    (Pretrained, {"num_heads": 4}, HEADS),
    (partial(VanillaLG, layers=6), {"depth": 5}, "layers must be between 1 and 5"),
    (WeightSubcloning, {"depth": 7}, "the descendant has 7 layers, but .* only 6"),
    (WeightSubcloning, {"num_heads": 2}, "it must not have more heads or wider ones"),
    (WeightSubcloning, {"mlp_ratio": 5.0}, "must not be wider, but has 120 of hidden neurons"),
    (StructuredPruning, {"embed_dim": 48, "num_heads": 6}, "choose the source's embed_dim"),
    (StructuredPruning, {"embed_dim": 12}, "choose num_heads"),
    (StagewiseExpansion, {"num_classes": 9}, "5 classes.* 9; .*--head 9"),
    (StagewiseExpansion, {"depth": 2}, "depth 2.*3 layers"),
    (StagewiseExpansion, {"in_chans": 1}, "patch_embed.proj.weight .*in_chans"),
]


@pytest.mark.parametrize(("kind", "change", "sentence"), REFUSED)
def test_a_size_that_an_initializer_cannot_fill_is_refused(ancestor_file, sws_file, kind, change, sentence):
    if kind is StructuredPruning:
        need_torch_pruning()
    source = sws_file if kind is StagewiseExpansion else ancestor_file
    with pytest.raises(UserError, match=sentence):
        initialize(BIG.replace(**change), kind(source))
