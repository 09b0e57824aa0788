"""Rows of results: what is written is read again, and no spreadsheet runs it."""

import csv
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgx.core.csv_cells import escape_cell, unescape_cell
from lgx.core.rows import Row, read_rows, write_rows
from lgx.errors import UserError

ROW = Row("sws", "6-Small", "dtd", "test", 1, "acc", 0.5, 0, 10, "runs/a/seed0")

_DANGEROUS = ("=", "+", "-", "@", "\t", "\r")
TEXTS = st.text(st.sampled_from("=+-@'a1 ,\"é|") | st.characters(exclude_categories=("Cc", "Cs")), max_size=12)


@given(st.text(max_size=8) | st.text(st.sampled_from("'=+-@\t\ra"), max_size=8))
def test_every_text_survives_its_cell_and_no_cell_is_a_formula(text):
    cell = escape_cell(text)
    assert unescape_cell(cell) == text
    assert not cell.startswith(_DANGEROUS)


@given(method=TEXTS, architecture=TEXTS, task=TEXTS, run=TEXTS, value=st.floats(allow_nan=False))
def test_every_row_is_read_as_it_was_written(tmp_path_factory, method, architecture, task, run, value):
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    row = Row(method, architecture, task, "test", 1, "loss", value, 0, 10, run, commit="-x")
    write_rows(path, [row])
    assert read_rows(path) == [row]
    with path.open(newline="", encoding="utf-8") as file:
        _, cells = csv.reader(file)
    assert not any(cell.startswith(_DANGEROUS) for column, cell in enumerate(cells) if column != 6)
    assert float(cells[6]) == value  # a number is no text: -0.5 stays


def test_a_table_that_excel_saved_is_read(tmp_path):
    write_rows(tmp_path / "r.csv", [ROW])
    (tmp_path / "r.csv").write_bytes("\ufeff".encode() + (tmp_path / "r.csv").read_bytes())
    assert read_rows(tmp_path / "r.csv") == [ROW]


WRONG = [
    {"epochs": -1}, {"seed": -2}, {"n": -3, "seed": 1}, {"value": 1.7, "seed": 1}, {"metric": "miou", "value": -0.1},
    {"metric": "mcc", "value": 63}, {"metric": "knn_acc", "value": 63}, {"split": "Test"}, {"metric": "ACC", "seed": 1},
]  # fmt: skip


@pytest.mark.parametrize("change", WRONG)
def test_values_that_nothing_measures_are_refused_by_file_and_line(tmp_path, change):
    write_rows(tmp_path / "r.csv", [ROW, replace(ROW, **change)])
    with pytest.raises(UserError, match=r"r\.csv, line 3: "):
        read_rows(tmp_path / "r.csv")


def test_a_column_that_occurs_twice_is_refused(tmp_path):
    write_rows(tmp_path / "r.csv", [ROW])
    header, row = (tmp_path / "r.csv").read_text().splitlines()
    (tmp_path / "r.csv").write_text(f"{header},value\n{row},0.1\n")
    with pytest.raises(UserError, match=r"r\.csv, line 1: the column 'value' occurs twice"):
        read_rows(tmp_path / "r.csv")
