"""Rows of results: what is written is read again, and no spreadsheet runs it."""

import csv

from hypothesis import given
from hypothesis import strategies as st

from lgx.core.csv_cells import escape_cell, unescape_cell
from lgx.core.rows import Row, read_rows, write_rows

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
    row = Row(method, architecture, task, "test", 1, "acc", value, 0, 10, run, commit="-x")
    write_rows(path, [row])
    assert read_rows(path) == [row]
    with path.open(newline="", encoding="utf-8") as file:
        _, cells = csv.reader(file)
    assert not any(cell.startswith(_DANGEROUS) for column, cell in enumerate(cells) if column != 6)
    assert float(cells[6]) == value  # a number is no text: -0.5 stays
