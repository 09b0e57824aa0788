"""Render pages from templates: ``experiments/pages/docs/results/sws.md.j2`` is the template of ``docs/results/sws.md``.

Numbers, tables and verdicts are inserted from committed rows. Where a sentence concludes something from them, a guard
(``ahead``, ``level``, ``require``) makes rendering fail as soon as the rows no longer say so.
"""

import re
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from experiments.analyze import paths
from experiments.analyze.length import in_words
from experiments.pages import reference, tables, values
from experiments.pages.sources import ArenaPage, Sources, selections
from experiments.pages.values import Refuted

TEMPLATES = Path("experiments/pages")
SUFFIX = ".j2"
NOTE = "<!-- `make pages` writes this page from {} and committed rows: edit the template. -->\n"


class Pages:
    """All pages that are rendered from committed rows of the current folder."""

    def __init__(self) -> None:
        self.sources = Sources()
        loader = jinja2.FileSystemLoader(TEMPLATES)
        self._jinja = jinja2.Environment(
            loader=loader, extensions=["jinja2.ext.do"], undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        )  # fmt: skip
        own = self.sources
        functions: list[Callable[..., Any]] = [
            tables.grid, tables.cross, tables.leads, tables.depths, tables.tasks, tables.markdown, tables.tuned,
            tables.kinds_of_methods, reference.commands, reference.interface,
            values.adjusted_p, values.average, values.binomial, values.ahead, values.level, values.require, selections,
            own.rows, own.cells, own.mean, own.span, own.claim, own.paper, own.verdicts, own.counts, own.judged,
            own.verdicts_of, own.departures, own.source, own.costs, own.length_table, own.length_lead, own.length_mean,
            own.fault, own.test_examples, own.drawn_usage, own.significant, in_words,
        ]  # fmt: skip
        self._jinja.globals |= {function.__name__: function for function in functions}
        self._jinja.globals |= {"recipes": own.recipes, "paths": paths, "arena": partial(ArenaPage, own)}

    def names(self) -> list[str]:
        """Paths of all pages."""
        found = sorted(TEMPLATES.rglob(f"*{SUFFIX}"))
        return [path.relative_to(TEMPLATES).as_posix().removesuffix(SUFFIX) for path in found]

    def render(self, name: str) -> str:
        """The text of a page.

        Raises:
            Refuted: If the rows no longer say what the page concludes; the message names the page, the line of its
                template, the conclusion and the numbers.
        """
        template = f"{name}{SUFFIX}"
        try:
            text = self._jinja.get_template(template).render()
        except (Refuted, jinja2.TemplateError) as error:
            at = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(SUFFIX)]
            place = f", line {at[-1].lineno} of its template" if at else ""
            line = f"\n  {at[-1].line}" if at else ""
            raise Refuted(f"{name}{place}: {error}{line}") from error
        return NOTE.format(TEMPLATES / template) + re.sub(r"\n{3,}", "\n\n", text)
