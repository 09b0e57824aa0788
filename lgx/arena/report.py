"""Print an arena's tables, and write them as a page, in Markdown, as pictures and for TensorBoard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from lgx.arena.arena_file import Arena
from lgx.arena.figures import compute_figure, write_scalars
from lgx.arena.points import Place
from lgx.arena.sections import sections_of
from lgx.arena.summary import headlines, start_section
from lgx.arena.verdicts import Curves
from lgx.components.figures import is_svg_of, to_panels, to_svg, write_svg
from lgx.core.rows import Row
from lgx.host.files import atomic_path
from lgx.host.outputs import check_file, check_folder, has_mark
from lgx.results.drawings import legend
from lgx.results.looks import styles
from lgx.results.markdown import to_markdown_page
from lgx.results.origin import origin_section
from lgx.results.page import to_html
from lgx.results.sections import Drawing, Section
from lgx.results.terminal import print_sections

COMMAND = "lgx arena"
PAGE, MARKDOWN, SCALARS = "report.html", "arena.md", "tensorboard"
_MARK = "written_by.txt"
_GENERATOR = f'<meta name="generator" content="{COMMAND}">'
_TITLE = "Starts at equal compute"


@dataclass(frozen=True)
class Report:
    """Where a report is written.

    Attributes:
        folder: The folder.
    """

    folder: Path

    def check(self, arena: Arena, force: bool) -> None:
        """Refuse to replace what no arena wrote.

        Args:
            arena: The arena.
            force: Whether such files may be replaced.

        Raises:
            UserError: If a file would be replaced, or the folder is a file.
        """
        check_file(self.folder / PAGE, COMMAND, lambda file: has_mark(file, _GENERATOR), force=force)
        check_file(self.folder / MARKDOWN, COMMAND, lambda file: has_mark(file, f"# {_TITLE}"), force=force)
        for task in arena.tasks:
            check_file(self.picture(task), COMMAND, lambda file: is_svg_of(file, COMMAND), force=force)
        scalars = self.folder / SCALARS
        if not (scalars / _MARK).is_file():
            content = ("folder of an arena's curves", arena.starts)
            check_folder(scalars, COMMAND, lambda folder: False, content, force=force)

    def picture(self, task: str) -> Path:
        """The picture of a task's curves."""
        return self.folder / f"curves-{task}.svg"

    def write(self, arena: Arena, curves: Curves, refusals: Mapping[tuple[str, str], str], rows: Sequence[Row]) -> None:
        """Print the tables, and write all files.

        Args:
            arena: The arena.
            curves: Curves of the starts that were measured.
            refusals: By start and size, why there is no descendant.
            rows: Rows of the runs.
        """
        sections, introduction = sections_of(arena, curves, refusals), [_overview(arena, rows)]
        result = headlines(arena, curves)
        print_sections([*result, *introduction], sections)
        self.folder.mkdir(parents=True, exist_ok=True)
        places = {task: _places(arena, curves, task) for task in arena.tasks}
        figures = {task: compute_figure(curves, found) for task, found in places.items() if found}
        drawings = [_drawing(task, figure, curves) for task, figure in figures.items()]
        pictures = Section("Curves", drawings=drawings, legend=_legend(curves))
        measured = [row for row in rows if arena.cell_of(row.run)]
        methods, origin = start_section(arena, measured), origin_section(measured)
        first, second, *others = sections
        html = [first, second, pictures, methods, *others, replace(origin, text=introduction)]
        pages = {
            PAGE: to_html(_TITLE, html, _GENERATOR, result),
            MARKDOWN: to_markdown_page(_TITLE, [*result, *introduction], [first, second, methods, *others, origin]),
        }
        for name, text in pages.items():
            with atomic_path(self.folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
        for task, figure in figures.items():
            write_svg(figure, self.picture(task), f"curves-{task}", COMMAND)
        with atomic_path(self.folder / SCALARS) as temporary:
            write_scalars(curves, temporary)
            (temporary / _MARK).write_text(f"{COMMAND}\n", encoding="utf-8")
        print(f"\nreport     {self.folder / PAGE}, and beside it {MARKDOWN}, the curves and {SCALARS}")


def _drawing(task: str, figure: Figure, curves: Curves) -> Drawing:
    """A task's curves for the page."""
    counts = [len(point.accuracy) for found in curves.values() for curve in found.values() for point in curve]
    spread = (
        "means over seeds, bars are 95 % intervals" if max(counts) > 1 else "one seed each, so that no bar is drawn"
    )
    caption = (
        f"{task}. Look at which line is highest above each amount of compute, which includes the share of sources; "
        f"{spread}."
    )
    label = f"accuracy against total compute on {task}, starts {', '.join(curves)}"
    name = f"curves-{task}"
    return Drawing(to_svg(figure, name), label, caption, to_panels(figure, name))


def _legend(curves: Curves) -> list[tuple[str, str]]:
    """Line styles of the starts that the curves show, by their names in the arena file."""
    looks = {start: replace(look, label=start) for start, look in styles(curves).items()}
    drawn = [s for s, found in curves.items() if any(p.flops.total for curve in found.values() for p in curve)]
    return legend(drawn, looks, "curves")


def _overview(arena: Arena, rows: Sequence[Row]) -> str:
    measured = [row for row in rows if arena.cell_of(row.run)]
    words = ", ".join(sorted({row.hardware for row in measured if row.hardware}))
    return (
        f"{len({row.run for row in measured})} runs, seeds {', '.join(str(seed) for seed in arena.content['seeds'])}, "
        f"tasks {', '.join(arena.tasks)}, sizes {', '.join(arena.sizes)}; {words}."
    )


def _places(arena: Arena, curves: Curves, task: str) -> list[Place]:
    """Places of a task that were measured."""
    places = [(task, size) for size in arena.sizes]
    return [place for place in places if any(place in found for found in curves.values())]
