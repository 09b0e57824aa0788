"""Index arithmetic of expansions and of a part of the width: invariants, and the examples of the papers."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lgx.architectures import ViTArchitecture
from lgx.architectures.axes import Axis
from lgx.errors import UserError
from lgx.initialization.expansion import cyclic, first_of_stages, random_assigned
from lgx.initialization.width import evenly_spaced, heads_whole, narrow
from lgx.methods.lsamd.selection import selected

sizes = st.tuples(st.integers(1, 8), st.integers(0, 12)).map(lambda t: (t[0], t[0] + t[1]))
orders = st.sampled_from(["front_mid_last", "front_last_mid"])


@given(sizes, orders)
def test_cyclic_covers_every_stage_in_order_and_evenly(size, order):
    stages, depth = size
    layers = cyclic(stages, depth, order)
    counts = [layers.count(s) for s in range(stages)]
    assert len(layers) == depth
    assert layers == sorted(layers)
    assert min(counts) >= 1
    assert max(counts) - min(counts) <= 1


def test_cyclic_examples_of_the_paper():
    # SWS, Fig. 3: five layers from three learngene layers.
    assert cyclic(3, 5, "front_mid_last") == [0, 0, 1, 1, 2]
    assert cyclic(3, 5, "front_last_mid") == [0, 0, 1, 2, 2]
    assert cyclic(5, 5) == [0, 1, 2, 3, 4]
    assert cyclic(5, 16) == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    grown = [cyclic(5, 5 + extra, "front_last_mid") for extra in range(6)]
    added = [next(s for s in range(5) if b.count(s) > a.count(s)) for a, b in itertools.pairwise(grown)]
    assert added == [0, 4, 1, 3, 2]


@given(sizes, st.integers(0, 100))
def test_random_assignment_is_reproducible_and_in_range(size, seed):
    stages, depth = size
    layers = random_assigned(stages, depth, seed)
    assert layers == random_assigned(stages, depth, seed)
    assert len(layers) == depth
    assert set(layers) <= set(range(stages))
    assert random_assigned(stages, depth, seed, keeps_order=True) == sorted(layers)


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_elements_are_every_nth_or_the_rounded_points_of_equal_distances(a, b):
    source, target = max(a, b), min(a, b)
    indices, step = evenly_spaced(source, target), (source - 1) / max(target - 1, 1)
    assert len(indices) == len(set(indices)) == target
    step = source // target if source % target == 0 else step
    assert max(abs(index - i * step) for i, index in enumerate(indices)) <= 0.5 + 1e-3
    assert (evenly_spaced(4, 3), evenly_spaced(6, 5)) == ([0, 2, 3], [0, 1, 2, 4, 5])  # a half goes to the even 2


def test_the_first_layers_of_stages_are_found_and_too_shallow_a_descendant_is_refused():
    assert first_of_stages((3, 3, 4, 3, 3)) == [0, 3, 6, 10, 13]
    for expand in (cyclic, random_assigned):
        with pytest.raises(UserError, match="depth 4 is below the learngene's 5 layers"):
            expand(5, 4)


PAPER = (0, 3, 4, 6, 7)
"""LSAMD's learngene of DeiT-Base, layers 1, 4, 5, 7 and 8 as the paper counts them."""


@pytest.mark.parametrize(
    ("depth", "priority", "layers"),
    [
        (6, "first", (1, 1, 4, 5, 7, 8)),
        (6, "middle", (1, 4, 5, 5, 7, 8)),
        (6, "last", (1, 4, 5, 7, 8, 8)),
        (7, "middle_first", (1, 1, 4, 5, 5, 7, 8)),
        (7, "last_first", (1, 1, 4, 5, 7, 8, 8)),
        (7, "last_middle", (1, 4, 5, 5, 7, 8, 8)),
        (5, "last_middle_first", (1, 4, 5, 7, 8)),
        (8, "last_middle_first", (1, 1, 4, 5, 5, 7, 8, 8)),
        (9, "last_middle_first", (1, 1, 4, 5, 5, 7, 8, 8, 8)),
    ],
)
def test_selected_layers_expand_as_in_the_papers_examples(depth, priority, layers):
    assert [PAPER[i] + 1 for i in selected(PAPER, depth, priority)] == list(layers)


@given(st.sets(st.integers(0, 11), min_size=1), st.integers(0, 12), st.permutations(["first", "middle", "last"]))
def test_every_selected_layer_is_used_and_the_order_is_kept(chosen, more, order):
    layers = sorted(chosen)
    found = selected(layers, len(layers) + more, "_".join(order))
    assert len(found) == len(layers) + more
    assert found == sorted(found)
    assert set(found) == set(range(len(layers)))


@pytest.mark.parametrize(
    ("depth", "priority", "sentence"),
    [
        (4, "last", "depth 4 is below the learngene's 5 layers"),
        (6, "end", "priority 'end': expected some of first, middle and last"),
        (6, "last_last", "each once"),
    ],
)
def test_impossible_expansions_are_refused(depth, priority, sentence):
    with pytest.raises(UserError, match=sentence):
        selected(PAPER, depth, priority)


def test_a_missing_middle_stage_is_refused():
    with pytest.raises(UserError, match="has 2 stage"):
        selected((0, 3), 3, "middle")
    assert selected((0, 3), 2, "middle") == [0, 1]


WIDE = ViTArchitecture(2, 24, 3, patch_size=8, img_size=16, num_classes=3, mlp_ratio=2.0)


def test_the_same_heads_neurons_and_dimensions_are_kept_in_every_parameter():
    torch.manual_seed(0)
    target = WIDE.replace(embed_dim=16, num_heads=2, mlp_ratio=1.5)
    wide, small = WIDE.build().eval(), target.build().eval()
    small.load_state_dict(narrow(wide.state_dict(), WIDE, target, heads_whole))
    qkv = [*range(8), *range(16, 24)]  # heads 0 and 2 of 3
    rows = [round(i * 23 / 15) for i in range(16)]
    block, kept = wide.blocks[1], small.blocks[1]
    for part in range(3):
        theirs = block.attn.qkv.weight[part * 24 : (part + 1) * 24][qkv][:, rows]
        assert torch.equal(kept.attn.qkv.weight[part * 16 : (part + 1) * 16], theirs)
    assert torch.equal(kept.attn.proj.weight, block.attn.proj.weight[rows][:, qkv])
    assert torch.equal(kept.mlp.fc2.weight, block.mlp.fc2.weight[rows][:, ::2])


def test_heads_of_another_width_keep_the_same_elements_of_each_head():
    source, target = Axis("heads", 12, 1, "blocks.0.attn", 3), Axis("heads", 4, 1, "blocks.0.attn", 2)
    assert heads_whole(source, target) == [0, 2, 8, 10]
