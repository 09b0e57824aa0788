"""Compute of architectures and runs, compared with the papers' numbers."""

import pytest

from lgx.architectures import NAMES
from lgx.architectures.cost import cost_of
from lgx.results.cost import (
    Descendant,
    MethodCost,
    Training,
    epochs_table,
    macs_table,
    method_cost,
    storage_table,
)

# Storage and training of many descendants

IMAGES = 1_281_167
DES_B = [f"Des-B-{depth}" for depth in range(6, 16)]


def trained(name: str, epochs: float, images: int = IMAGES) -> Training:
    return Training(cost_of(NAMES[name]).macs, epochs, epochs * images)


def sws_b(tuning: float) -> MethodCost:
    """SWS's Des-B-6 to -15: a learngene of 100 epochs, and the given epochs of tuning for each."""
    descendants = [
        Descendant(name, "imagenet", *cost_of(NAMES[name])[::-1], trained(name, tuning)) for name in DES_B
    ]  # fmt: skip
    levit = 2.35e9  # MACs of the paper's ancestor, LeViT-384
    aux = Training(cost_of(NAMES["Aux-B"]).macs, 100, 100 * IMAGES, teacher_macs=levit)
    scratch = {("imagenet", name): trained(name, 100) for name in DES_B}
    return method_cost("sws", descendants, [aux], stored=cost_of(NAMES["Aux-B"]).parameters, scratch=scratch)


def test_sws_stores_20_times_fewer_parameters():
    cost = sws_b(10)
    assert round(cost.stored / 1e6, 1) == pytest.approx(37.0, abs=0.06)
    assert cost.each / 1e6 == pytest.approx(759.3, abs=0.3)  # the paper sums rounded numbers
    assert cost.each / cost.stored == pytest.approx(20, abs=0.6)


def test_sws_pretrains_10_times_less():
    cost = sws_b(10)
    assert cost.pretraining.epochs / cost.learning.epochs == 10
    # Less in MACs: the auxiliary net has 16 layers, the ten descendants 10.5 on average, and the teacher costs, too.
    assert cost.pretraining.macs / cost.learning.macs == pytest.approx(6.37, abs=0.01)


def test_sws_trains_less_than_scratch_and_tleg_by_what_the_paper_says():
    assert sws_b(5).scratch.epochs / sws_b(5).total.epochs == pytest.approx(6.6, abs=0.07)  # 1000 / 150
    assert sws_b(40).total.epochs / sws_b(10).total.epochs == 2.5  # TLEG: 100 + 10 x 40 against 100 + 10 x 10


def test_lsamd_saves_95_percent_of_the_storage():
    counted = {f"Des-B-{d}": cost_of(NAMES[f"Des-B-{d}"].replace(num_classes=100), "modules") for d in range(5, 16)}
    tuned = Training(None, 50, None)
    descendants = [Descendant(name, "cifar100", cost.macs, cost.parameters, tuned) for name, cost in counted.items()]
    cost = method_cost("lsamd", descendants, stored=counted["Des-B-5"].parameters)
    assert round(cost.each / 1e6, 2) == 787.03
    ((_, cells),) = storage_table([cost]).rows
    assert [cell.text for cell in cells] == ["11", "36.11", "787.03", "21.80x", "95.41 %"]


def test_lsamd_costs_as_many_epochs_as_pretrain_finetune():
    tuned = [Descendant(f"Des-B-{d}", "cifar100", 1.0, 1, Training(1.0, 50, None)) for d in range(6, 11)]
    lsamd = method_cost("lsamd", tuned, [Training(1.0, 50, None)] * 10)
    separate = method_cost("pretrained", tuned, [Training(1.0, 100, None)] * 5, shared=False)
    assert (lsamd.total.epochs, separate.total.epochs) == (750, 750)  # "1.36x" would be 750 against 550


def test_a_step_costs_three_forward_passes_and_the_teachers():
    assert Training(10.0, 2, 7, teacher_macs=4.0).work.macs == 7 * (30 + 4)
    assert Training(10.0, 2, 7, teacher_macs=None).work.macs is None


def test_unknown_costs_are_dashes_and_other_numbers_stay():
    descendants = [Descendant("6-Small", "pocket", 2e9, 22_000_000, Training(2e9, 3, 1000))]
    tal = method_cost("tal", descendants, [Training(None, 75, None, seconds=7200)], stored=None)
    sws = method_cost("sws", descendants, [Training(2e9, 6, 1000, seconds=60)], stored=2_000_000)
    (one, first), (other, second) = storage_table([tal, sws]).rows
    assert (one, other) == ("sws", "tal")
    assert [cell.text for cell in second] == ["1", "–", "22.00", "–", "–"]
    assert [cell.text for cell in first] == ["1", "2.00", "22.00", "11.00x", "90.91 %"]
    rows = dict(macs_table([tal, sws]).rows)
    assert [cell.text for cell in rows["tal"]] == ["0", "–", "6", "–", "–", "–"]
    assert [cell.text for cell in rows["sws"]] == ["0", "6", "6", "–", "1.00x", "–"]
    assert [cell.text for cell in dict(epochs_table([tal, sws]).rows)["tal"]] == ["1", "0", "75", "3", "–", "1.00x"]


def test_small_networks_are_counted_in_thousands():
    small = Descendant("3-Tiny", "pocket", 1e6, 25_000, Training(1e6, 3, 1000))
    table = storage_table([method_cost("sws", [small], stored=5_000)])
    assert table.columns[1:3] == ("stored (k)", "a network each (k)")
    assert [cell.text for cell in table.rows[0][1]] == ["1", "5.00", "25.00", "5.00x", "80.00 %"]


def test_descendants_on_several_tasks_need_one_pretraining_per_architecture():
    descendants = [Descendant("6-Small", task, 1e9, 10, Training(1e9, 5, 50)) for task in ("a", "b")]
    scratch = {("a", "6-Small"): Training(1e9, 30, 300)}
    cost = method_cost("sws", descendants, [Training(1e9, 20, 200)], scratch=scratch)
    assert (cost.architectures, cost.descendants, cost.each) == (1, 2, 10)
    assert (cost.pretraining.epochs, cost.tuning.epochs) == (20, 10)
    assert cost.scratch is None  # task b was not trained from scratch
