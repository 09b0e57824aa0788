"""Growth that keeps the function."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.initialization import initialize
from lgx.methods.net2net.initializer import Net2Net, copied_layers
from tests.support.command_line import lgx

SMALL = ViTArchitecture(2, 16, 2, patch_size=4, img_size=16, num_classes=5, mlp_ratio=2.0)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A network without zeros and ones, so that every parameter counts."""
    torch.manual_seed(0)
    state = {
        name: torch.randn_like(tensor) * 0.3 + ("norm" in name and name.endswith("weight"))
        for name, tensor in SMALL.build().state_dict().items()
    }
    path = tmp_path_factory.mktemp("small") / f"best{SUFFIX}"
    task = {"name": "shapes", "mean": [0.5] * 3, "std": [0.5] * 3}
    Learngene("ancestor", SMALL, state, task=task).save(path)
    return str(path)


def outputs(model, images):
    with torch.no_grad():
        return model.double().eval()(images.double())


@pytest.mark.parametrize("split", ["random", "equal"])
@pytest.mark.parametrize(
    "sizes",
    [dict(depth=5), dict(embed_dim=32, num_heads=4), dict(depth=3, embed_dim=48, num_heads=6), dict(mlp_ratio=3.0)],
    ids=["deeper", "wider", "both", "hidden"],
)
def test_a_grown_network_computes_what_its_source_does(source, sizes, split):
    images = torch.randn(3, 3, 16, 16)
    initializer = Net2Net(source, split)
    own = outputs(initialize(SMALL, initializer).model, images)
    assert_close(outputs(initialize(SMALL.replace(**sizes), initializer).model, images), own, rtol=1e-5, atol=1e-6)


def test_copies_differ_unless_their_shares_are_equal(source):
    wide = SMALL.replace(embed_dim=32, num_heads=4)
    for split, same in (("equal", True), ("random", False)):
        weight = initialize(wide, Net2Net(source, split)).model.state_dict()["head.weight"]
        assert torch.equal(weight[:, :16], weight[:, 16:]) == same


def test_a_width_between_keeps_the_function_about(source):
    between = initialize(SMALL.replace(embed_dim=24, num_heads=3), Net2Net(source))
    assert "about that of the source" in between.describe()
    assert "function  that of the source" in initialize(SMALL, Net2Net(source)).describe()


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 24))
def test_every_layer_of_the_source_computes_once_and_in_order(depth, more):
    layers = copied_layers(depth, depth + more)
    assert [layer for layer, is_whole in layers if is_whole] == list(range(depth))
    assert [layer for layer, _ in layers] == sorted(layer for layer, _ in layers)
    copies = [sum(layer == i for layer, _ in layers) for i in range(depth)]
    assert max(copies) - min(copies) <= 1


def test_the_command_line_grows_a_network(ancestor, tmp_path):
    large = "depth=6,embed_dim=32,num_heads=4,patch_size=4,img_size=16"
    result = lgx("init", "--source", ancestor / f"best{SUFFIX}", "--method", "net2net", "--arch", large, "--out",
                 tmp_path / "grown")  # fmt: skip
    assert result.code == 0, result.err
    assert "function  that of the source" in result.out


@pytest.mark.parametrize("form", ["vit_base_patch16_rpn_224", "eva02_enormous_patch14_clip_224"])
def test_added_layers_that_normalize_their_output_add_nothing(tmp_path, form):
    torch.manual_seed(0)
    own = ViTArchitecture.from_dict({**SMALL.to_dict(), "form": form})
    model = own.build()
    state = {name: torch.randn_like(tensor) * 0.3 for name, tensor in model.state_dict().items()}
    Learngene("ancestor", own, state).save(path := tmp_path / f"best{SUFFIX}")
    images, deeper = torch.randn(3, 3, 16, 16), own.replace(depth=5)
    grown = initialize(deeper, Net2Net(str(path))).model
    assert_close(outputs(grown, images), outputs(initialize(own, Net2Net(str(path))).model, images))
    grown.train()(images.double()).sum().backward()
    added = grown.blocks[1]
    assert any(parameter.grad.abs().sum() > 0 for parameter in added.parameters())
