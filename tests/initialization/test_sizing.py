"""The size of a descendant by budget."""

import itertools
import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lgx.architectures import ViTArchitecture
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.initialization.descendants import _summary
from lgx.initialization.sizing import (
    _MOST_SECONDS,
    Budget,
    Candidate,
    Stopwatch,
    _deepest,
    enough,
    find_sizes,
    parse_budgets,
    seconds_of_pass,
)
from tests.support.families import EACH, tiny

TINY = ViTArchitecture(6, 48, 3, patch_size=4, img_size=16, num_classes=5)
SPACES = {"within": Sizes.within(TINY), "depth": Sizes.of_any_depth(TINY, 2), "free": Sizes.free(TINY)}


def cost(sizes: Sizes, depth: int, embed_dim: int, mlp_ratio: float) -> tuple[int, int]:
    """Parameters and MACs that the search computes for a network."""
    return Candidate(sizes, depth, embed_dim, mlp_ratio).cost


@pytest.mark.parametrize("family", EACH)
def test_the_law_holds_for_every_family(family):
    like = tiny(family, embed_dim=64, num_heads=4, mlp_ratio=4.0)
    network = like.replace(depth=3, embed_dim=48, num_heads=3, mlp_ratio=2.5)
    assert cost(Sizes.within(like), 3, 48, 2.5) == (network.count_parameters(), network.count_macs())
    budget = Budget("params", 0.7 * like.count_parameters())
    first = find_sizes(Sizes.within(like), [budget])[0].architecture
    assert first.form == like.form
    assert first.num_prefix_tokens == like.num_prefix_tokens
    assert budget.least <= first.count_parameters() <= budget.limit


@given(value=st.integers(1, 10**12))
def test_a_budget_that_is_shown_is_enough_and_hardly_more(value):
    assert value <= parse_budgets(enough("params", value))[0].limit <= max(value + 0.01, 1.0011 * value)


def test_hidden_widths_that_an_mlp_does_not_allow_are_left_out():
    like = tiny("dinov2_swiglu", embed_dim=64, num_heads=4, depth=4, mlp_ratio=8 / 3)
    for share in (0.3, 0.95):
        for candidate in find_sizes(Sizes.within(like), [Budget("params", share * like.count_parameters())]):
            assert candidate.cost.parameters == candidate.architecture.count_parameters()
    sizes = Sizes.free().with_fixed("mlp_ratio=2.7", 1000)  # a width of 128 would have 345 neurons
    first = find_sizes(sizes, parse_budgets(params="9M"))[0].architecture
    assert first.mlp_ratio == 2.7
    assert first.embed_dim > 64
    assert first.depth < 40


def test_a_random_start_may_have_the_form_of_a_model_of_timm():
    arch = "timm:vit_small_patch14_reg4_dinov2,img_size=28,depth=2"
    network = find_sizes(Sizes.free().with_fixed(arch, 3), parse_budgets(params="500k"))[0].architecture
    assert (network.form, network.patch_size, network.img_size) == ("vit_small_patch14_reg4_dinov2", 14, 28)
    assert network.depth == 2


def test_the_first_size_meets_each_of_twenty_random_budgets_within_two_percent_where_the_width_may_vary():
    rng, met = random.Random(0), {name: [] for name in SPACES}
    for _ in range(20):
        name, what = rng.choice(sorted(SPACES)), rng.choice(["params", "macs"])
        sizes = SPACES[name]
        ends = (cost(sizes, sizes.depth[0], sizes.embed_dim[0], sizes.mlp_ratio[0]), cost(sizes, 6, 48, 4.0))
        least, full = (end[what == "macs"] for end in ends)
        budget = Budget(what, rng.uniform(least, full * (2 if name == "free" else 1)))
        first = find_sizes(sizes, [budget])[0]
        value = first.architecture.count_parameters() if what == "params" else first.architecture.count_macs()
        assert value == first.value(budget) <= budget.limit
        met[name].append(first.keeps_layers or value >= 0.98 * budget.limit)
    assert all(met["within"])
    assert all(met["free"])
    assert met["depth"]


@settings(max_examples=20)
@given(st.sampled_from(["params", "macs"]), st.floats(0.1, 1))
def test_whole_layers_of_the_source_come_first_beside_the_best_of_other_widths(what, share):
    full, sizes = Candidate(SPACES["within"], 6, 48, 4.0), SPACES["within"]
    budget = Budget(what, share * full.value(Budget(what, 1)))
    found = find_sizes(sizes, [budget])
    whole = [Candidate(sizes, depth, 48, 4.0) for depth in range(2, 7)]
    fitting = [candidate for candidate in whole if candidate.value(budget) <= budget.limit]
    assert ([found[0]] if found[0].keeps_layers else []) == fitting[-1:]
    narrower = Candidate(sizes, 1, 32, 1.0).value(budget) <= budget.limit
    assert {16, 32} <= {candidate.embed_dim for candidate in found} or not narrower
    assert all(candidate.value(budget) <= budget.limit for candidate in found)


def test_sizes_that_meet_a_budget_alike_are_ordered_by_their_distance_from_the_proportions_of_the_source():
    budget = Budget("params", cost(SPACES["free"], 12, 96, 4.0)[0])
    found = find_sizes(SPACES["free"], [budget])
    assert found[0].architecture == TINY.replace(depth=12, embed_dim=96, num_heads=6)
    distances = [candidate.imbalance for candidate in found if candidate.value(budget) >= budget.least]
    assert distances == sorted(distances)
    assert distances[0] == 0
    assert len(distances) > 1


def test_what_the_user_fixes_stays():
    sizes = Sizes.within(TINY).with_fixed("depth=3,img_size=32,patch_size=8", num_classes=9)
    networks = [candidate.architecture for candidate in find_sizes(sizes, parse_budgets(params="40k"))]
    assert {(n.depth, n.img_size, n.patch_size, n.num_classes) for n in networks} == {(3, 32, 8, 9)}
    assert len({n.embed_dim for n in networks}) == len(networks) > 1
    assert Sizes.within(TINY).with_fixed("embed_dim=32,num_heads=2", 5).embed_dim == (32, 32)


def test_two_budgets_are_both_limits():
    within = [Budget("params", 1.3 * TINY.count_parameters()), Budget("macs", TINY.count_macs())]
    first = find_sizes(SPACES["free"], within)[0]
    assert 0.98 <= first.cost.macs / within[1].limit <= 1
    assert first.cost.parameters < 0.98 * within[0].limit


@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ("params", ["9Q", "many", "", "1e999", "1,5k", "1,50", "1500,000", "1,5000", ",500", "1.5,000", "1,500,0"]),
        ("macs", ["0", "-1G", "1,2G"]),
        ("latency", ["5", "5M", "2,5ms"]),
    ],
)
def test_a_malformed_budget_is_refused(what, texts):
    for text in texts:
        with pytest.raises(UserError, match=f"--{what} {text}: expected a positive number such as") as refused:
            parse_budgets(**{what: text})
        assert ("decimals with a point" in str(refused.value)) == ("," in text)


def test_budgets_are_read_with_their_units():
    texts = ("9M", "9e6", "9000k", "9,000,000", " 0.009 g ")
    assert {parse_budgets(params=text)[0].limit for text in texts} == {9e6}
    assert [parse_budgets(params=text)[0].limit for text in ("1,234.5", "12,345k")] == [1234.5, 12_345_000]
    assert {parse_budgets(latency=text)[0].limit for text in ("5ms", "0.005s", "5000 us")} == {0.005}


@pytest.mark.parametrize(
    ("space", "budgets", "words"),
    [
        ("within", {"params": "1k"}, r"--params 1k: the smallest network that the start can fill \(depth=1.*at least"),
        (
            "within",
            {"params": "9M"},
            r"--params 9M: the largest network that the start can fill \(depth=6,embed_dim=48",
        ),
        ("depth", {"macs": "1k"}, r"--macs 1k: the smallest network that the start can fill \(depth=2"),
    ],
)
def test_an_impossible_budget_is_refused_with_the_nearest_possible_one(space, budgets, words):
    with pytest.raises(UserError, match=words) as refused:
        find_sizes(SPACES[space], parse_budgets(**budgets))
    (what,), nearest = budgets, str(refused.value).split()[-1]
    assert find_sizes(SPACES[space], [Budget(what, 1.001 * parse_budgets(**{what: nearest})[0].limit)])


@pytest.mark.parametrize(
    ("arch", "words"),
    [
        ("6-Small", "--arch 6-Small: names a whole network, so a budget has no choice"),
        ("depth=9", "--arch depth=9: the start fills 1 to 6"),
        ("embed_dim=40", "--arch embed_dim=40: heads of the start have width 16"),
        ("embed_dim=48,num_heads=6", "heads of the start have width 16"),
        ("img_size=30", "patch_size 4 does not divide img_size 30"),
    ],
)
def test_a_fixed_size_that_the_start_cannot_fill_is_refused(arch, words):
    with pytest.raises(UserError, match=words):
        Sizes.within(TINY).with_fixed(arch, 5)


@pytest.mark.slow
def test_latency_is_measured_and_kept():
    sizes = Sizes.free(TINY).with_fixed("embed_dim=32,mlp_ratio=4", 5)
    stopwatch = Stopwatch(batch=2)
    found = find_sizes(sizes, parse_budgets(latency="30ms"), stopwatch=stopwatch)
    for candidate in found:
        assert 0 < candidate.latency == stopwatch.measured[candidate.architecture] <= 0.03
        assert candidate.cost.parameters == candidate.architecture.count_parameters()
    assert found[0].architecture.depth > 1
    with pytest.raises(UserError, match=r"--latency 0.001ms: the smallest network .* give at least --latency"):
        find_sizes(sizes, parse_budgets(latency="1us"), stopwatch=stopwatch)


class Linear(Stopwatch):
    """A pass takes about 2 ms, and in each layer 1 ms for 16 of width, plus what the depth adds or saves."""

    def __init__(self, bend=0.0):
        super().__init__()
        self.bend = bend

    def measure(self, network):
        layers = network.embed_dim / 16 * network.depth * (1 + self.bend * network.depth)
        self.measured[network] = (2 + layers) * 2**-10
        return self.measured[network]


@pytest.mark.parametrize("bend", [0.0, 0.02, -0.004, -0.02])
def test_sizes_for_a_time_are_the_deepest_that_keep_to_it_wherever_the_estimate_is_wrong(bend):
    watch, sizes = Linear(bend), SPACES["free"]
    found = find_sizes(sizes, [Budget("latency", 0.0151)], most=9, stopwatch=watch)
    assert len(found) > 2
    for one in found:
        assert one.latency == watch.measure(one.architecture) <= 0.0151
        deeper = watch.measure(one.architecture.replace(depth=one.depth + 1))
        assert deeper > 0.0151 or (bend < 0 and one.latency > 0.0125)  # at most three depths are tried
        assert one.mlp_ratio == TINY.mlp_ratio
    widths = sorted({network.embed_dim for network in watch.measured})
    assert 48 in widths
    assert all(b >= 1.25 * a for a, b in pairwise(widths) if b != 48)


def test_a_layer_takes_half_of_what_two_more_layers_take():
    assert Linear().parts(SPACES["free"], 48, 4.0) == (2 * 2**-10, 3 * 2**-10)
    constant = Linear()
    constant.measure = lambda network: 2e-3 / network.depth  # noise: more layers take less time
    assert constant.parts(SPACES["free"], 48, 4.0) == pytest.approx((2e-3 - 2e-6, 2e-6))
    late = Linear(bend=1.0).parts(SPACES["free"], 48, 4.0)  # 8 and 38 ms: nothing is left outside of the layers
    assert late == pytest.approx((0.0, 15 * 2**-10))


def test_a_time_may_be_used_up_and_the_mlp_ratio_stays_in_its_range():
    limit = [Budget("latency", 14 * 2**-10)]
    assert _deepest(SPACES["free"], 48, 4.0, limit, Linear()).latency == limit[0].limit
    found = find_sizes(SPACES["free"].with_fixed("embed_dim=48,mlp_ratio=2", 5), limit, stopwatch=Linear())
    assert [(one.depth, one.mlp_ratio, one.latency) for one in found] == [(4, 2.0, limit[0].limit)]


@pytest.mark.parametrize(("seconds", "passes"), [(1.0, 15), (0.01, 50), (1e-6, 200)])
def test_passes_are_timed_for_half_a_second_but_neither_too_few_nor_too_many(monkeypatch, seconds, passes):
    times, calls = itertools.count(), []
    monkeypatch.setattr("lgx.initialization.sizing.time.perf_counter", lambda: seconds * next(times))
    monkeypatch.setattr("lgx.initialization.sizing._MOST_SECONDS", _MOST_SECONDS)  # other tests time fewer
    assert seconds_of_pass(calls.append, torch.zeros(1, 3, 2, 2)) == pytest.approx(seconds)
    assert passes - 1 <= len(calls) - 3 <= passes + 1  # three are not timed
    assert len(calls) - 3 == passes or passes == 50  # sums of hundredths are rounded


def test_names_of_layers_are_folded():
    assert _summary(()) == "none"
    assert _summary(("norm.weight", "blocks.3.a", "blocks.3.b")) == "blocks.3, norm"
    assert _summary(("blocks.2.a", "blocks.3.a", "cls_token")) == "blocks.2-3, cls_token"
    assert _summary(("blocks.2.a", "blocks.3.a", "blocks.5.b")) == "blocks.2, blocks.3, blocks.5"


def test_what_is_unused_counts_budgets_and_then_the_smallest_share():
    found = Candidate(SPACES["within"], 3, 48, 4.0)
    parameters, macs = found.cost
    budgets = [Budget("params", parameters / 0.6), Budget("macs", macs / 0.7)]
    assert found.unused(budgets) == (2, 0.3)
    assert found.unused([Budget("params", parameters), Budget("macs", macs / 0.7)]) == (1, 0.0)
    assert found.unused([Budget("params", parameters / 0.98)]) == (0, 0.0)


def test_the_distance_from_proportions_is_that_of_logarithms():
    found = Candidate(SPACES["within"], 3, 48, 2.0)  # half as deep, an MLP half as wide
    assert found.imbalance == pytest.approx(2 * math.log(2), abs=1e-6)
    assert Candidate(SPACES["free"], 12, 96, 8.0).imbalance == pytest.approx(math.log(2), abs=1e-6)
    assert (SPACES["within"].widths()[-1], max(SPACES["within"].ratios(48))) == (48, 4.0)
    assert replace(SPACES["free"], mlp_ratio=(1.03, 1.2)).ratios(64) == [17 / 16, 18 / 16, 19 / 16, 1.2]
