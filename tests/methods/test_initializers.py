"""The initializer that belongs to a file, or to the name of a method."""

import pytest

from lgx.errors import UserError
from lgx.methods import Pretrained, RandomStart, StagewiseExpansion, WeightSelection
from lgx.methods.initializers import initializer_for


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
