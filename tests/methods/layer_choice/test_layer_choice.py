"""Layers of an ancestor by a rule or a list, the controls of a selection."""

import pytest
import torch
from torch.testing import assert_close

from lgx.architectures import parse_architecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import LayerChoice
from lgx.methods.weight_subcloning.samples import sample_inputs

ARCH = "depth={},embed_dim=16,num_heads=2,patch_size=4,img_size=16"


@pytest.fixture(scope="module")
def ancestor(tmp_path_factory):
    """An ancestor of six layers, of which each has its own number as the bias of its first norm."""
    architecture = parse_architecture(ARCH.format(6), num_classes=3)
    state = architecture.build().state_dict()
    for layer in range(6):
        state[f"blocks.{layer}.norm1.bias"].fill_(layer)
    path = tmp_path_factory.mktemp("ancestor") / f"a{SUFFIX}"
    Learngene("ancestor", architecture, state).save(path)
    return str(path)


def layers_of(initializer, depth):
    state = initializer(parse_architecture(ARCH.format(depth), num_classes=3))
    return [int(state[f"blocks.{i}.norm1.bias"][0]) for i in range(depth)]


@pytest.mark.parametrize(
    ("options", "depth", "layers"),
    [
        ({"choice": "first"}, 4, [0, 1, 2, 3]),
        ({"choice": "last"}, 4, [2, 3, 4, 5]),
        ({"choice": "even"}, 3, [0, 2, 5]),
        ({"choice": "0 3 5"}, 3, [0, 3, 5]),
        ({"choice": "0,3,5"}, 5, [0, 3, 3, 5, 5]),
        ({"choice": "first"}, 8, [0, 1, 2, 3, 4, 5, 5, 5]),
    ],
)
def test_a_descendant_has_the_named_layers(ancestor, options, depth, layers):
    initializer = LayerChoice(ancestor, **options)
    assert layers_of(initializer, depth) == layers
    (note,) = initializer.notes(parse_architecture(ARCH.format(depth), num_classes=3), ())
    assert note == f"layers    {' '.join(map(str, layers))} of {ancestor}"


def test_random_layers_depend_on_their_seed_alone(ancestor):
    drawn = {seed: layers_of(LayerChoice(ancestor, "random", seed=seed), 3) for seed in range(8)}
    assert drawn == {seed: layers_of(LayerChoice(ancestor, "random", seed=seed), 3) for seed in range(8)}
    assert len({tuple(layers) for layers in drawn.values()}) > 3
    assert all(layers == sorted(set(layers)) for layers in drawn.values())


def test_everything_outside_the_layers_is_the_ancestors(ancestor):
    start = LayerChoice(ancestor, "last")
    model = initialize(parse_architecture(ARCH.format(3), num_classes=5), start, head="new").model
    source = Learngene.load(ancestor).tensors
    assert torch.equal(model.patch_embed.proj.weight, source["patch_embed.proj.weight"])
    assert torch.equal(model.pos_embed, source["pos_embed"])
    assert torch.equal(model.norm.bias, source["norm.bias"])
    assert model.head.out_features == 5
    assert start.named(model) == "layer_choice_last"


def test_influence_is_one_minus_the_mean_cosine_of_what_a_layer_reads_and_returns(ancestor, images):
    start = LayerChoice(ancestor, data=str(images), images=20)  # with data the default
    model, pairs = start.loaded.model, []
    hooks = [block.register_forward_hook(lambda _, x, y: pairs.append((x[0], y))) for block in model.blocks]
    with torch.no_grad():
        model(sample_inputs(start.loaded, str(images), 20, "any"))
    for hook in hooks:
        hook.remove()
    expected = [1 - torch.cosine_similarity(x.double(), y.double(), -1).mean() for x, y in pairs]
    assert len(expected) == 6
    assert_close(start._influence, torch.stack(expected), rtol=1e-5, atol=1e-7)
    best = sorted(sorted(range(6), key=lambda layer: -expected[layer])[:3])
    assert layers_of(start, 3) == best
    assert len(start.notes(parse_architecture(ARCH.format(3), num_classes=3), ())[1].split()) == 1 + 6 + 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"choice": "middle"},
            "choice: expected first, last, even, random, influence, or different layers from 0 to 5",
        ),
        ({"choice": "0 6"}, "choice: expected first"),
        ({"choice": "0 1 2"}, "depth"),
        ({"choice": "influence"}, "choice influence: needs inputs; give a folder of images or texts"),
        ({"data": "here", "images": 0}, "images: expected at least 1"),
    ],
)
def test_impossible_layers_are_refused(ancestor, options, sentence):
    with pytest.raises(UserError, match=sentence):
        layers_of(LayerChoice(ancestor, **options), 2)
