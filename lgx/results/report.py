"""A report: sections of text, tables and figures, shown in Markdown, a page or a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

EMPTY_CELL = "–"
"""Text of an empty cell."""


class Cell(NamedTuple):
    """Text of a cell, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        title: Its title.
        columns: Heads of the columns after the first.
        rows: For each line the text of the first column, usually a method, and the cells.
        common: Sentence on common parts that the heads leave out; may be empty.
        first: Head of the first column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    common: str = ""
    first: str = "method"


@dataclass(frozen=True)
class ReportFigure:
    """A figure.

    Attributes:
        name: Name of its file without suffix.
        svg: The ``<svg>`` element with legend, trusted.
        label: Description for readers who cannot see it.
        caption: Text below the figure, with hints for reading it.
    """

    name: str
    svg: str
    label: str
    caption: str


class Item(NamedTuple):
    """A term and its explanation.

    Attributes:
        term: The term.
        text: Sentences on it.
        url: Where to read more; empty for none.
    """

    term: str
    text: str
    url: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        title: Its title.
        text: Paragraphs before everything else.
        items: Terms that are explained.
        tables: Tables.
        figures: Figures.
        below: Paragraphs after everything else.
    """

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[ReportFigure] = ()
    items: Sequence[Item] = ()
    below: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """What a comparison or an arena tells its readers.

    Attributes:
        title: Its title.
        headline: The result in sentences, the most important first.
        introduction: Paragraphs on included and excluded rows.
        sections: Its parts, in order.
    """

    title: str
    headline: Sequence[str]
    introduction: Sequence[str]
    sections: Sequence[Section]
