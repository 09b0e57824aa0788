"""What every initializer of the registry must do, also those that are added later."""

import pytest

from lgx.artifacts.learngene import SUFFIX
from lgx.initialization import Origin, initialize
from lgx.methods import registry
from tests.support.command_line import lgx
from tests.support.learngenes import NETWORK, TASK, initializers_with_source, save_source


@pytest.fixture(params=initializers_with_source())
def initializer(request, tmp_path):
    kind = registry.initializer_classes()[request.param]
    return kind(str(save_source(kind, tmp_path / f"best{SUFFIX}")))


def test_descendants_inherit_the_normalization_and_the_classes_of_the_source(initializer):
    origin = initializer.origin()
    assert origin.mean == tuple(TASK["mean"])
    assert origin.std == tuple(TASK["std"])
    assert origin.num_classes == TASK["num_classes"]
    assert origin.kind == NETWORK.kind


def test_a_random_start_inherits_nothing():
    random = [kind for kind in registry.initializer_classes().values() if kind.is_random]
    assert [kind().origin() for kind in random] == [Origin()]


def test_a_start_takes_parameters_from_the_source_and_says_what_it_stores(initializer):
    start = initialize(NETWORK, initializer, head="new")
    assert start.taken
    assert start.stored == initializer.stored_parameters > 0


def test_lgx_init_names_every_method_that_starts_models_of_other_libraries(tmp_path):
    kind = registry.initializer_classes()["WeightSelection"]
    source = save_source(kind, tmp_path / f"best{SUFFIX}")
    given = ("--source", source, "--method", "weight_selection", "--out", tmp_path / "out")
    result = lgx("init", "--arch", "timm:resnet18", *given)
    assert result.code == 2
    _, _, named = result.sentence.partition("--method ")
    classes = registry.initializer_classes()
    able = {
        name
        for spec in registry.specs().values()
        if spec.initializer and classes[spec.initializer.rpartition(":")[2]].starts_any_model
        for name in spec.names
    }
    assert set(named.split(" or ")) == able
    assert {"tal", "logah_aligned"} <= able
