"""The papers' tables: complete, well-formed, and with the numbers that the papers print."""

import pytest

from data_modules.registry import IMAGE_SETS
from experiments.reproduce.paper import load_table, table_names

COUNTS = {name: int(count) for name, _, count in (pair.partition(" ") for pair in """\
tal/table1 20, tal/table2 243, tal/table3 90, tal/table4 4, tal/table5 36, tal/table6 50, tal/table7 36,
tal/table8 3, tal/table9 120, tal/rebuttal_svhn 12, tal/rebuttal_cifar100 12, tal/rebuttal_pvalues 4,
tal/rebuttal_parameters 16, tal/rebuttal_convergence 50, tal/rebuttal_ghn3_task 42, tal/rebuttal_larger 4,
lsamd/table1 27, lsamd/table2 89, lsamd/table3 20, lsamd/table4 42, lsamd/table5 24, lsamd/figure5 4,
lsamd/table6 36, sws/table1 70, sws/table2 41, sws/table3 20, sws/table4 30, sws/table5 30, sws/figure5 5,
sws/table6 10""".replace("\n", " ").split(", "))}  # fmt: skip
"""Numbers per table, counted in the papers."""


def test_every_table_has_all_its_numbers():
    assert {name: len(load_table(name).rows) for name in table_names()} == COUNTS


def test_tables_use_names_of_lgx_and_no_value_twice():
    for table in map(load_table, COUNTS):
        assert table.title
        assert table.source
        assert {row.unit for row in table.rows} <= {"percent", "M", "G", "hours", "1"}
        keys = [(r.method, r.architecture, r.task, r.epochs, r.metric, r.variant) for r in table.rows]
        assert len(set(keys)) == len(keys)
        percents = [row.value for row in table.rows if row.unit == "percent" and row.value is not None]
        assert all(0 <= percent <= 100 for percent in percents)
    assert [(row.method, row.remark) for row in load_table("sws/table5").rows if row.value is None] == [
        ("sws_41523", "fail")
    ]


@pytest.mark.parametrize(
    ("table", "method", "architecture", "task", "epochs", "number"),
    [
        ("sws/table1", "sws", "Des-B-12", "imagenet", 0, 79.3),
        ("sws/table1", "sws", "12-Base", "imagenet", 0, 79.3),
        ("sws/table1", "random", "12-Base", "imagenet", 100, 79.6),
        ("sws/table1", "random", "12-Base", "imagenet", 0, None),
        ("sws/table1", "sws", "12-Base", "cifar10", 0, None),
        ("sws/table1", "sws", "depth=12,embed_dim=64,num_heads=4", "imagenet", 0, None),
        # unstated epochs match any positive number
        ("sws/table2", "sws", "Des-B-6", "cifar100", 7, 88.11),
        ("sws/table2", "sws", "Des-B-6", "cifar100", 0, None),
        # variants and roles
        ("lsamd/table4", "lsamd_middle", "6-Base", "cifar10", 50, 96.0),
        ("lsamd/table4", "lsamd", "Des-B-6", "pets", 50, None),
        ("lsamd/table3", "lsamd_image", "12-Base", "food101", 50, 61.14),
        ("sws/table5", "mini_deit", "12-Base,stages=2-2-2-2-2-2", "imagenet", 100, 80.9),
        ("sws/table5", "sws_222222_no_ancestor", "Aux-B", "imagenet", 100, 77.7),
        # names of data sets; only those of the Decathlon match TAL's tables
        ("lsamd/table1", "lsamd", "6-Base", "oxford_iiit_pet", 50, 79.86),
        ("lsamd/table1", "lsamd", "Des-B-6", "decathlon_cifar100", 50, None),
        ("tal/table2", "tal", "12-Tiny", "decathlon_flowers", 0, 45.00),
        ("tal/table2", "tal", "12-Tiny", "flowers102", 0, 45.00),
        ("tal/table2", "tal", "12-Tiny", "mini_cifar100", 0, None),
        ("tal/table2", "tal", "12-Tiny", "flowers", 0, None),
    ],
)
def test_the_number_of_a_measured_value_is_found(table, method, architecture, task, epochs, number):
    assert load_table(table).find(method, architecture, task, epochs, "acc") == number


def test_names_of_the_papers_are_those_of_lgx():
    assert load_table("sws/table6").task_name("stanford_cars") == "cars196"
    table = load_table("lsamd/table3")
    assert {row.task for row in table.rows} <= {table.task_name(name) for name in IMAGE_SETS}
