"""Parameters and MACs of architectures, compared with the papers' tables."""

import pytest

from experiments.reproduce.paper import load_table
from lgx.architectures import NAMES
from lgx.architectures.cost import cost_of
from tests.support.command_line import lgx, refusal


def printed(table: str, metric: str) -> dict[str, float]:
    """A paper's numbers of one metric, by architecture."""
    rows = load_table(table).rows
    return {row.architecture: row.value for row in rows if row.metric == metric and row.value is not None}


def test_every_row_of_lsamds_table_2_is_counted_as_printed():
    parameters, flops = printed("lsamd/table2", "params"), printed("lsamd/table2", "flops")
    assert list(parameters) == list(flops) == [f"Des-B-{depth}" for depth in range(5, 16)]
    for name in parameters:
        cost = cost_of(NAMES[name].replace(num_classes=100), "modules")
        assert round(cost.parameters / 1e6, 2) == parameters[name]
        assert round(cost.macs / 1e9, 2) == flops[name]


@pytest.mark.parametrize(("table", "classes"), [("table1", 1000), ("table2", 100), ("table3", 1000), ("table4", 1000)])
def test_the_tables_of_sws_agree_within_rounding(table, classes):
    parameters = printed(f"sws/{table}", "params")
    assert len(parameters) >= 5
    for name, value in parameters.items():
        assert cost_of(NAMES[name].replace(num_classes=classes)).parameters / 1e6 == pytest.approx(value, abs=0.1)
    for name, value in printed(f"sws/{table}", "flops").items():
        assert cost_of(NAMES[name]).macs / 1e9 == pytest.approx(value, rel=0.01)


def test_the_two_counting_conventions_differ_in_positions_attention_and_norms():
    base = NAMES["12-Base"]
    whole, modules = cost_of(base), cost_of(base, "modules")
    assert whole.parameters - modules.parameters == 198 * 768  # 197 positions and the class token
    attention, norms = 12 * 2 * 197 * 197 * 768, 25 * 4 * 197 * 768
    assert whole.macs - modules.macs == attention - norms


def test_layers_that_share_weights_run_each_time_and_count_once():
    shared, twice = NAMES["Aux-B"], NAMES["Des-B-16"]
    assert cost_of(shared, "modules").macs == cost_of(twice, "modules").macs
    assert cost_of(shared, "modules").parameters == cost_of(NAMES["Des-B-5"], "modules").parameters


def test_a_text_model_is_not_counted_as_lsamd_counts_images():
    assert "LSAMD counts images only" in refusal(lgx("arch", "3-GPT2", "--count", "modules"))
