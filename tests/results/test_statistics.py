"""Means, intervals and differences over seeds, and their tables, compared with scipy and hand computations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lgx.results.architecture_names import architecture_order, depth_of, family_of, short_names
from lgx.results.statistics import paired_difference, summarize
from lgx.results.tables import arrange, differences, measured
from tests.results.helpers import row

SPEC = "depth={},embed_dim=64,num_heads=4,img_size=32"
VALUES = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=2, max_size=12)


@given(VALUES)
def test_the_interval_is_scipys(values: list[float]) -> None:
    summary = summarize(values)
    assert summary.n == len(values)
    assert summary.mean == pytest.approx(sum(values) / len(values), abs=1e-9)
    error = stats.sem(values)
    if error > 0:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=summary.mean, scale=error)
        assert summary.half_width == pytest.approx((high - low) / 2, rel=1e-6)
    else:
        assert summary.half_width == pytest.approx(0, abs=1e-9)


def test_the_interval_of_two_seeds_is_wide_and_one_seed_has_none() -> None:
    assert summarize([0.0, 2.0]).half_width == pytest.approx(12.706, abs=1e-3)  # t(0.975, 1) * sqrt(2) / sqrt(2)
    summary = summarize([0.5])
    assert (summary.mean, summary.half_width, summary.n) == (0.5, None, 1)
    with pytest.raises(ValueError, match="no value"):
        summarize([])


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=2, max_size=10))
def test_the_paired_p_value_is_scipys(pairs: list[tuple[int, int]]) -> None:
    method = {seed: float(a) for seed, (a, _) in enumerate(pairs)}
    baseline = {seed: float(b) for seed, (_, b) in enumerate(pairs)}
    difference = paired_difference(method, baseline)
    if len({a - b for a, b in pairs}) == 1:
        assert difference.p is None
    else:
        expected = stats.ttest_rel(list(method.values()), list(baseline.values())).pvalue
        assert difference.p == pytest.approx(expected, abs=1e-9)
        assert difference.claimable == (expected < 0.05) or math.isclose(expected, 0.05)


def test_pairs_are_formed_over_common_seeds_only() -> None:
    difference = paired_difference({0: 5.0, 1: 7.0, 9: 100.0}, {1: 4.0, 0: 1.0, 8: -100.0})
    assert (difference.summary.mean, difference.summary.n) == (3.5, 2)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
    one = paired_difference({0: 1.0}, {0: 0.0})
    assert (one.p, one.claimable) == (None, False)


def test_a_diverged_seed_gives_no_mean_and_no_p_value() -> None:
    summary = summarize([1.0, math.nan, 2.0])
    assert math.isnan(summary.mean)
    assert (summary.half_width, summary.n) == (None, 3)
    difference = paired_difference({0: 1.0, 1: math.nan}, {0: 0.0, 1: 0.0})
    assert not difference.claimable


def test_cells_hold_mean_interval_and_number_of_seeds_and_losses_are_not_percentages() -> None:
    entries = measured([row(value=v, seed=s) for s, v in enumerate((0.50, 0.52, 0.54))], "acc")
    # sd = 2 points, t(0.975, 2) = 4.3027, half width = 4.3027 * 2 / sqrt(3) = 4.97
    assert [entry.text for entry in entries] == ["52.00 ± 4.97 (3)"]
    assert measured([row(value=0.5)], "acc")[0].text == "50.00 (1)"
    assert measured([row(value=0.5, metric="loss")], "loss")[0].text == "0.5000 (1)"


def test_the_best_of_a_column_is_the_highest_accuracy_and_the_lowest_loss() -> None:
    rows = [row("sws", value=0.6), row("random", value=0.2)]
    for metric, best in (("acc", "sws"), ("loss", "random")):
        (table,) = arrange(measured(rows, metric), metric)
        assert {name for name, cells in table.rows if cells[0].best} == {best}


def test_untrained_and_trained_have_separate_tables_ordered_by_depth() -> None:
    rows = [row(architecture=name, epochs=epochs) for name in ("10-Small", "6-Small", "12-Tiny") for epochs in (0, 10)]
    tables = arrange(measured(rows, "acc"), "acc")
    assert [table.title for table in tables] == ["pocket, untrained", "pocket, after 10 epochs"]
    assert all(table.columns == ("6-Small", "10-Small", "12-Tiny") for table in tables)


def test_of_one_descendant_tasks_become_columns_and_of_one_task_epochs() -> None:
    (table,) = arrange(measured([row(task="b"), row(task="a")], "acc"), "acc")
    assert (table.title, table.columns) == ("6-Small, untrained", ("a", "b"))
    (table,) = arrange(measured([row(epochs=10), row(), row(epochs=1)], "acc"), "acc")
    assert table.columns == ("untrained", "after 1 epoch", "after 10 epochs")


def test_a_missing_cell_is_a_dash() -> None:
    (table,) = arrange(measured([row("sws", "6-Small"), row("tleg", "8-Small")], "acc"), "acc")
    assert {name: [cell.text for cell in cells] for name, cells in table.rows} == {
        "tleg": ["–", "50.00 (1)"],
        "sws": ["50.00 (1)", "–"],
    }


@pytest.mark.parametrize(
    ("name", "depth", "family"),
    [
        ("6-Small", 6, "Small"),
        ("Des-B-12", 12, "Des-B"),
        ("3-GPT2", 3, "GPT2"),
        ("depth=6,embed_dim=64,num_heads=4", 6, "embed_dim=64,num_heads=4"),
        ("embed_dim=64,depth=16,stages=3-3-4-3-3", 16, "embed_dim=64,stages=3-3-4-3-3"),
        ("Aux-B", None, "Aux-B"),
    ],
)
def test_depth_and_family_come_from_the_name(name: str, depth: int | None, family: str) -> None:
    assert (depth_of(name), family_of(name)) == (depth, family)


def test_names_are_short_where_depth_and_width_tell_them_apart() -> None:
    assert short_names([SPEC.format(4), SPEC.format(6)]) == {SPEC.format(4): "4x64", SPEC.format(6): "6x64"}
    alike = [SPEC.format(4), SPEC.format(4) + ",mlp_ratio=2"]
    assert short_names([*alike, SPEC.format(6)]) == {name: name for name in alike} | {SPEC.format(6): "6x64"}
    assert sorted(["10-Small", "9-Small"], key=architecture_order) == ["9-Small", "10-Small"]


@pytest.mark.parametrize(
    ("gains", "shown"),
    [((0.01, 0.02, 0.06), ", p = 0.188"), ((0.01, 0.011, 0.012), "*, p = 0.003"), ((0.05,), ""), ((0.05, 0.05), "")],
)
def test_differences_show_the_p_value_of_the_paired_t_test(gains, shown) -> None:
    rows = [row("random", value=0.25, seed=seed) for seed in range(len(gains))]
    rows += [row("sws", value=0.25 + gain, seed=seed) for seed, gain in enumerate(gains)]
    (entry,) = differences(rows, "loss", "random")
    assert entry.text.partition(f"({len(gains)})")[2] == shown
    if "p = " in shown:
        p = stats.ttest_rel([0.25 + gain for gain in gains], [0.25] * len(gains)).pvalue
        assert shown.endswith(f"p = {p:.3f}")


def test_a_diverged_run_is_shown_but_never_best() -> None:
    (table,) = arrange(measured([row("sws", value=math.nan), row("random", value=0.2)], "acc"), "acc")
    assert [(name, cells[0].text, cells[0].best) for name, cells in table.rows] == [
        ("random", "20.00 (1)", False),
        ("sws", "nan (1)", False),
    ]


@pytest.mark.parametrize("factor", [1.0, 100.0])
@pytest.mark.parametrize("lead", [0.0, 0.1, -0.25])
def test_differences_that_are_equal_to_rounding_support_no_claim(lead, factor):
    tasks = np.random.default_rng(0).uniform(0.3, 0.7, (5, 4))  # seeds, tasks; measured in float32
    one, other = (np.float32(tasks + lead), np.float32(tasks))
    sides = [{s: factor * math.fsum(map(float, row[order])) / 4 for s, row in enumerate(values)}
             for values, order in ((one, [0, 1, 2, 3]), (other, [3, 1, 0, 2]))]  # fmt: skip
    for method, baseline in (sides, sides[::-1], [{s: side[s] for s in (0, 1)} for side in sides]):
        difference = paired_difference(method, baseline)
        assert (difference.claimable, difference.p, difference.summary.half_width) == (False, None, 0)
        assert (difference.summary.mean == 0) == (lead == 0)
    assert paired_difference({0: 0.3, 1: 0.7}, {0: 0.2, 1: 0.6}).marks == ""
    assert paired_difference({0: math.inf, 1: 1.0}, {0: math.inf, 1: 1.0}).summary.half_width is None
    assert paired_difference({0: 100.0, 1: 1e-5}, {0: 100.0, 1: 0.0}).summary.half_width == 0  # rounding of the largest
    clear = paired_difference({0: 90.0, 1: 90.001}, {0: 80.0, 1: 80.0})  # above the rounding
    assert (clear.claimable, clear.marks) == (True, "*, p < 0.001")
