"""The size of a descendant by budget."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lgx.architectures import ViTArchitecture
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.initialization.sizing import Budget, Space, find_sizes, parse_budgets
from lgx.initialization.sizing.counts import law_of
from lgx.initialization.sizing.latency import Clock, Latency
from tests.support.families import EACH, tiny

TINY = ViTArchitecture(6, 48, 3, patch_size=4, img_size=16, num_classes=5)
SPACES = {
    "within": Space.of(Sizes.within(TINY), "selection"),
    "depth": Space.of(Sizes.of_any_depth(TINY, 2), "expansion"),
    "free": Space.of(Sizes.free(TINY), "random"),
}


@pytest.mark.parametrize("family", EACH)
def test_the_law_holds_for_every_family(family):
    like = tiny(family, embed_dim=64, num_heads=4, mlp_ratio=4.0)
    network = like.replace(depth=3, embed_dim=48, num_heads=3, mlp_ratio=2.5)
    assert law_of(like).cost(3, 48, 2.5) == (network.count_parameters(), network.count_macs())
    budget = Budget("params", 0.7 * like.count_parameters())
    first = find_sizes(Space.of(Sizes.within(like), family), [budget]).candidates[0].architecture
    assert first.form == like.form
    assert first.num_prefix_tokens == like.num_prefix_tokens
    assert budget.least <= first.count_parameters() <= budget.most


def test_a_gated_mlp_keeps_an_even_hidden_width():
    like = tiny("dinov2_swiglu", embed_dim=64, num_heads=4, depth=4, mlp_ratio=8 / 3)
    space = Space.of(Sizes.within(like), "selection")
    for share in (0.3, 0.6, 0.95):
        for candidate in find_sizes(space, [Budget("params", share * like.count_parameters())]).candidates:
            assert candidate.parameters == candidate.architecture.count_parameters()


def test_widths_that_a_fixed_mlp_ratio_does_not_allow_do_not_end_the_search():
    space = Space.of(Sizes.free(), "random", "mlp_ratio=2.7")  # a width of 128 would have 345 neurons
    first = find_sizes(space, parse_budgets(params="9M")).candidates[0].architecture
    assert first.mlp_ratio == 2.7
    assert first.embed_dim > 64
    assert first.depth < 40


def test_a_random_start_may_have_the_form_of_a_model_of_timm():
    arch = "timm:vit_small_patch14_reg4_dinov2,img_size=28,depth=2"
    space = Space.of(Sizes.free(), "random", arch, num_classes=3)
    network = find_sizes(space, parse_budgets(params="500k")).candidates[0].architecture
    assert (network.form, network.patch_size, network.img_size) == ("vit_small_patch14_reg4_dinov2", 14, 28)
    assert network.depth == 2


@settings(max_examples=6)
@given(
    st.integers(1, 9),
    st.integers(1, 7),
    st.integers(8, 100),
    st.sampled_from([TINY, ViTArchitecture(6, 64, 2, img_size=32)]),
)
def test_the_law_counts_what_the_network_counts(depth, heads, sixteenths, like):
    head = like.embed_dim // like.num_heads
    network = like.replace(depth=depth, embed_dim=heads * head, num_heads=heads, mlp_ratio=sixteenths / 16)
    counted = (network.count_parameters(), network.count_macs())
    assert law_of(like).cost(depth, network.embed_dim, network.mlp_ratio) == counted


def test_the_first_size_meets_each_of_twenty_random_budgets_within_two_percent_or_says_why_not():
    rng, met = random.Random(0), {name: [] for name in SPACES}
    for _ in range(20):
        name, what = rng.choice(sorted(SPACES)), rng.choice(["params", "macs"])
        space, small = SPACES[name], SPACES[name].smallest
        ends = [law_of(space.like).cost(n.depth, n.embed_dim, n.mlp_ratio) for n in (small, TINY)]
        least, full = (end.parameters if what == "params" else end.macs for end in ends)
        budget = Budget(what, rng.uniform(least, full * (2 if name == "free" else 1)))
        found = find_sizes(space, [budget])
        first = found.candidates[0]
        value = first.architecture.count_parameters() if what == "params" else first.architecture.count_macs()
        assert value == first.value(budget) <= 1.02 * budget.limit
        met[name].append(value >= 0.98 * budget.limit)
        if met[name][-1]:
            assert found.notes == []
        else:
            (note,) = found.notes
            assert f"less than {budget}" in note
            assert "the depth" in note
    assert all(met["within"])
    assert all(met["free"])
    assert not all(met["depth"])


def test_sizes_that_meet_a_budget_alike_are_ordered_by_their_distance_from_the_proportions_of_the_source():
    budget = Budget("params", law_of(TINY).cost(12, 96, 4.0).parameters)
    found = find_sizes(SPACES["free"], [budget])
    assert found.candidates[0].architecture == TINY.replace(depth=12, embed_dim=96, num_heads=6)
    distances = [candidate.imbalance for candidate in found.candidates[: found.equal]]
    assert distances == sorted(distances)
    assert distances[0] == 0
    assert len(distances) > 1


def test_a_source_fills_neither_more_layers_nor_more_width_than_it_has():
    for share in (0.2, 0.5, 0.9):
        found = find_sizes(SPACES["within"], [Budget("macs", share * TINY.count_macs())])
        for network in (candidate.architecture for candidate in found.candidates):
            assert network.depth <= TINY.depth
            assert network.embed_dim <= TINY.embed_dim
            assert network.mlp_ratio <= TINY.mlp_ratio
            assert network.embed_dim // network.num_heads == 16


def test_what_the_user_fixes_stays():
    space = Space.of(Sizes.within(TINY), "selection", "depth=3,img_size=32,patch_size=8", num_classes=9)
    found = find_sizes(space, parse_budgets(params="40k"))
    networks = [candidate.architecture for candidate in found.candidates]
    assert {(n.depth, n.img_size, n.patch_size, n.num_classes) for n in networks} == {(3, 32, 8, 9)}
    assert len({n.embed_dim for n in networks}) == len(networks) > 1


def test_two_budgets_are_both_limits_and_the_note_names_the_tighter_one():
    within = [Budget("params", 1.3 * TINY.count_parameters()), Budget("macs", TINY.count_macs())]
    found = find_sizes(SPACES["free"], within)
    first = found.candidates[0]
    assert 0.98 <= first.macs / within[1].limit <= 1.02
    assert first.parameters < 0.98 * within[0].limit
    assert f"{within[1]} is tighter" in found.notes[0]


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        ({"params": "9Q"}, "--params 9Q: expected a number such as 9M; the units are k, M, G and T"),
        ({"params": "many"}, "expected a number such as 9M"),
        ({"params": ""}, "expected a number"),
        ({"macs": "0"}, "--macs 0: must be positive"),
        ({"macs": "-1G"}, "--macs -1G: must be positive"),
        ({"params": "1e999"}, "must be positive and finite"),
        ({"latency": "5"}, "--latency 5: expected a number such as 5ms; the units are us, µs, ms, s"),
        ({"latency": "5M"}, "the units are us"),
    ],
)
def test_a_malformed_budget_is_refused(budgets, words):
    with pytest.raises(UserError, match=words):
        parse_budgets(**budgets)


def test_budgets_are_read_with_their_units():
    texts = ("9M", "9e6", "9000k", "9,000,000", " 0.009 g ")
    assert {parse_budgets(params=text)[0].limit for text in texts} == {9e6}
    assert {parse_budgets(latency=text)[0].limit for text in ("5ms", "0.005s", "5000 us")} == {0.005}


@pytest.mark.parametrize(
    ("space", "budgets", "words"),
    [
        ("within", {"params": "1k"}, r"--params 1k: the smallest network that selection fills \(depth=1.*at least"),
        ("within", {"params": "9M"}, r"--params 9M: the largest network that selection fills \(depth=6,embed_dim=48"),
        ("depth", {"macs": "1k"}, r"--macs 1k: the smallest network that expansion fills \(depth=2"),
        ("free", {"params": "9M", "macs": "100k"}, "--params 9M and --macs 100k contradict each other: .* leave one"),
    ],
)
def test_an_impossible_budget_is_refused_with_the_nearest_possible_one(space, budgets, words):
    with pytest.raises(UserError, match=words) as refused:
        find_sizes(SPACES[space], parse_budgets(**budgets))
    nearest = str(refused.value).rpartition("--params" if "9M" in words else "--")[2].split()[-1].split(",")[0]
    if len(budgets) == 1:
        (what,) = budgets
        assert find_sizes(SPACES[space], parse_budgets(**{what: nearest})).candidates


@pytest.mark.parametrize(
    ("arch", "words"),
    [
        ("6-Small", "names a whole network, which leaves a budget nothing to choose"),
        ("depth=9", "--arch depth=9: selection fills 1 to 6"),
        ("embed_dim=40", "--arch embed_dim=40: expected a multiple of a head's width 16"),
        ("embed_dim=48,num_heads=6", "changes the width of a head, which is 16"),
        ("widht=48", "unknown key 'widht'"),
        ("depth=x", "depth must be a number, got 'x'"),
        ("img_size=30", "patch_size 4 does not divide img_size 30"),
    ],
)
def test_a_fixed_size_that_the_start_cannot_fill_is_refused(arch, words):
    with pytest.raises(UserError, match=words):
        Space.of(Sizes.within(TINY), "selection", arch)


def test_latency_is_measured_and_kept():
    space = Space.of(Sizes.free(TINY), "random", "embed_dim=32,mlp_ratio=4")
    found = find_sizes(space, parse_budgets(latency="15ms"), batch=2)
    for candidate in found.candidates:
        assert candidate.latency is not None
        assert candidate.latency.low <= candidate.latency.seconds <= candidate.latency.high
        assert candidate.latency.seconds <= 1.02 * 0.015
        assert candidate.parameters == candidate.architecture.count_parameters()
    assert found.candidates[0].architecture.depth > 1


def test_a_wide_spread_of_the_measurements_is_reported():
    space = Space.of(Sizes.own(TINY), "pretrained")
    clock = Clock(space, law_of(TINY), limit=1.0)
    clock.measured = {TINY: Latency(0.01, 0.0099, 0.0101)}
    assert "spread up to 2 %" in "".join(clock.warnings) or clock.warnings == ()  # the load may be high
    clock.measured[TINY] = Latency(0.01, 0.005, 0.02)
    (line,) = clock.warnings
    assert "spread up to 150 %" in line
    assert "measure again" in line
