"""Committed rows, and what is computed from them: verdicts, starts at equal compute, LSAMD's selections, times."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from experiments.analyze import length
from experiments.pages.values import Lead, Measured, Refuted, Values
from experiments.reproduce.costs import costs_as_markdown
from experiments.reproduce.judged_claims import (
    JudgedClaim,
    adjusted,
    claims_as_markdown,
    count_answers,
    judged_claims,
)
from experiments.reproduce.recipes import Recipe, load_recipes
from experiments.reproduce.verdicts import MEANINGS
from lgx.core.rows import Row, read_rows
from lgx.methods.lsamd.selection import Selection
from lgx.methods.registry import specs
from lgx.results.compute import best_within, compute_sections, lead_at_equal_compute, read_curves
from lgx.results.report import piped, to_markdown
from lgx.results.statistics import Summary
from lgx.results.sweep_costs import rows_by_start
from lgx.runs.sweeps import load_sweep

RESULTS = Path("experiments/results")
DEPARTURES = {
    "method": "The method, by default:",
    "paper scale": "The configurations of the paper's tables, which need GPUs and were not run:",
    "measured": "The small experiments that were measured:",
}
FAULTS = {
    "snapvit": (
        {"366162f781", "da654a4ea5"},
        "The rows of `snapvit` come from a wrong evolutionary search. One of its matrix updates was transposed, and it "
        "had 50 evaluations instead of 250. These rows have not been measured again.",
    )
}
"""Method -> the commits of rows that were measured with a fault of the method, and the sentence on pages about them."""
Cells = Mapping[str, str]


class Sources:
    """Committed files of the current folder, each read once."""

    def __init__(self) -> None:
        self.read_rows: Callable[[str], list[Row]] = cache(read_rows)
        self.read_cells: Callable[[str], list[Cells]] = cache(_read_cells)
        self.recipes: Callable[[], dict[str, Recipe]] = cache(load_recipes)
        self._judged = cache(lambda table: judged_claims([self.recipes()[table]]))

    def rows(self, *names: str, **options: Any) -> Measured:
        """Rows of files of results, or of other files by their paths; see :class:`Measured`."""
        return Measured((row for name in names for row in self._file(name)), **options)

    def fault(self, method: str, *names: str) -> str:
        """The sentence of :data:`FAULTS` on a method, empty where no row of it in these files has such a commit."""
        commits, sentence = FAULTS[method]
        faulty = any(row.method == method and row.commit in commits for name in names for row in self._file(name))
        return sentence * faulty

    def test_examples(self, name: str, task: str) -> int:
        """How many test examples a task has in a file of results."""
        (count,) = {row.n for row in self._file(name) if (row.task, row.split) == (task, "test")}
        return count

    def drawn_usage(self, name: str) -> list[int]:
        """Number of data sets that use the base block of each layer, from the first panel of a figure of paths."""
        text = Path(f"{RESULTS / name}.svg").read_text(encoding="utf-8")
        dots = text.split('PathCollection_1">')[1].split('matplotlib.axis_1">')[0]
        counts = Counter(float(x) for x in re.findall(r'<use [^>]* x="([\d.]+)"', dots))
        return [count for _, count in sorted(counts.items())]

    def cells(self, name: str) -> list[Cells]:
        """The lines of a file of another form than rows."""
        return self.read_cells(_path_of(name))

    def mean(self, name: str, column: str, **where: Any) -> float:
        """Mean of a column over the lines with these values; a range chooses numbers."""
        found = [
            float(line[column])
            for line in self.cells(name)
            if all(int(line[k]) in v if isinstance(v, range) else line[k] == v for k, v in where.items())
        ]
        if not found:
            raise Refuted(f"{name} has no line with {where}")
        return fmean(found)

    def span(self, name: str, what: str, *codes: str) -> str:
        """Least and largest measured value of the code of some commits; without any, of the latest code."""
        lines = [line for line in self.cells(f"docs/performance/{name}.csv") if line["what"] == what]
        old = ("0ccd4be", "73b9469", "a3f12aa")
        numbers = [float(x["value"]) for x in lines if (x["code"] in codes if codes else x["code"] not in old)]
        if not numbers:
            raise Refuted(f"{name}.csv has no value of {what!r} for {codes or 'the latest code'}")
        digits = 0 if max(numbers) >= 100 else 1 if max(numbers) >= 5 else 2
        least, most = f"{min(numbers):,.{digits}f}", f"{max(numbers):,.{digits}f}"
        return least if least == most else f"{least} to {most}"

    def claim(self, table: str, claim: str) -> JudgedClaim:
        """The verdict on a claim, by its words in the table of verdicts."""
        for judged in self._judged(table):
            if judged.cells()[1].removesuffix(" (control)") == claim:
                return judged
        raise Refuted(f"experiments/index.yaml: {table} has no claim {claim!r}")

    def paper(self, table: str, claim: str) -> str:
        """The lead that the paper printed, without a sign."""
        return f"{abs(self.claim(table, claim).verdict.paper or 0):.1f}"

    def judged(self) -> list[JudgedClaim]:
        """All claims and controls with their verdicts."""
        return [judged for table in self.recipes() for judged in self._judged(table)]

    def verdicts(self, *chosen: tuple[str, str]) -> str:
        """The table of verdicts, of all claims or of some."""
        listed = [self.claim(*place) for place in chosen] or self.judged()
        return claims_as_markdown(listed, self.judged()).rpartition("\n\n")[0]

    def verdicts_of(self, paper: str) -> str:
        """The table of verdicts on one paper's claims, and the tables and figures on which there is none.

        Args:
            paper: ``tal``, ``lsamd`` or ``sws``.
        """
        names = [name for name in self.recipes() if name.startswith(f"{paper}/")]
        claims = [judged for name in names for judged in self._judged(name)]
        table = claims_as_markdown(claims, self.judged()).rpartition("\n\n")[0]
        without = [
            f"{name.partition('/')[2]} ({recipe.title})"
            for name, recipe in self.recipes().items()
            if name in names and not recipe.claims and not recipe.controls and name != "tal/table4"
        ]
        return f"{table}\n\nWithout a claim to judge: {'; '.join(without) or 'none'}."

    def departures(self, paper: str) -> str:
        """Tables of the departures from a paper: of the method, of its configurations, of what was measured."""
        path = Path("experiments/departures.yaml")
        tables = yaml.safe_load(path.read_text(encoding="utf-8"))[paper]
        head = ("what", "the paper", "lgx")
        return "\n\n".join(
            f"{DEPARTURES[name]}\n\n{piped([head, ['---'] * 3, *(line[:3] for line in lines)])}"
            for name, lines in tables.items()
        )

    def source(self, method: str) -> str:
        """Authors, title and year of a method's paper, as a link."""
        spec = specs()[method]
        return f"[{spec.paper}]({spec.url})"

    def length_table(self) -> str:
        """Accuracy and leads of TAL by layout and steps of its hypernetwork."""
        return length.length_table(self._file("tal_length"))

    def length_lead(self, layout: str, steps: int, is_trained: bool, other: str) -> Summary:
        """A lead of TAL in this table, points."""
        return length.leads_of(self._file("tal_length"), is_trained, other)[layout, steps]

    def length_mean(self, layout: str, steps: int, is_trained: bool) -> float:
        """Accuracy of TAL in this table, or of random starts without a layout, in percent."""
        points, random = length.means_of(self._file("tal_length"))
        found = points[length.Key("tal", layout, steps, is_trained)] if layout else random[is_trained]
        return fmean(found.values())

    def costs(self, paper: str | None = None) -> str:
        """What the papers, or one of them, say about costs, beside what plans give."""
        return costs_as_markdown(paper)

    def counts(self) -> str:
        """A table that counts the verdicts and defines each one; verdicts that no claim has are left out."""
        counts = count_answers(self.judged())
        lines = [
            (f"*{answer}*", str(counts[answer]), meaning) for answer, meaning in MEANINGS.items() if counts[answer]
        ]
        return piped([("verdict", f"of {counts.total()} claims", "meaning"), ("---", "---:", "---"), *lines])

    def significant(self) -> str:
        """How many claims have a p below 0.05, before and after it is adjusted for their number."""
        p_values = adjusted(self.judged())
        conclusive = sum(count_answers(self.judged())[answer] for answer in ("holds", "holds (smaller)", "reversed"))
        kept = sum(p < 0.05 for p in p_values.values())
        kept_in_words = f"{kept} have a p (Holm) below 0.05"
        return f"{conclusive} of {len(p_values)} claims with an interval are conclusive one by one; {kept_in_words}"

    def _file(self, name: str) -> list[Row]:
        return self.read_rows(_path_of(name))


def _path_of(name: str) -> str:
    """The path of a file of results by its name, or the path itself."""
    return name if "/" in name else f"{RESULTS / name}.csv"


def _read_cells(path: str) -> list[Cells]:
    with Path(path).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


class ArenaPage:
    """Tables of a sweep with starts, and differences to training from scratch with the same compute."""

    def __init__(self, sources: Sources, file: str, name: str) -> None:
        starts = load_sweep(file).starts
        assert starts is not None
        self.scratch = starts.scratch
        curves = read_curves(rows_by_start(starts, sources._file(name)), "acc")
        self.curves = {start: curves[start] for start in starts.content["starts"]}

    def table(self, number: int) -> str:
        """A table of the comparison: 0 best starts, 1 all starts against scratch."""
        (table,) = compute_sections(self.curves, self.scratch)[number].tables
        return to_markdown(table).strip()

    @property
    def winners(self) -> set[str]:
        """The best starts of all tasks and sizes, within each budget of scratch and without a bound."""
        found = set()
        for place, curve in self.curves[self.scratch].items():
            for flops in (*(point.flops for point in curve), inf):
                choice = best_within(self.curves, place, flops)
                found |= {choice.method} if choice else set()
        return found

    def accuracy(self, start: str, task: str, size: str, epochs: int = 4) -> Values:
        """Accuracy of descendants after some epochs."""
        for point in self.curves[start].get((task, size), ()):
            if point.epochs == epochs:
                return Values(f"{start}, {task}, {size}, {epochs} epochs", point.accuracy)
        raise Refuted(f"{start} was not measured on {task}, {size}, {epochs} epochs")

    def lead(self, start: str, epochs: int, size: str = "") -> Lead:
        """Accuracy of a start minus that of scratch, on average over all tasks and sizes, or over those of one size."""
        chosen = {
            name: {place: curve for place, curve in places.items() if size in ("", place[1])}
            for name, places in self.curves.items()
        }
        found = lead_at_equal_compute(chosen, start, self.scratch, epochs)
        if found is None or found[0].summary.half_width is None:
            raise Refuted(f"scratch was not measured with the compute of {start} after {epochs} epochs")
        summary = found[0].summary
        return Lead(summary.mean, summary.half_width, found[0].claimable, 1, found[0].p)


def selections(cells: list[Cells]) -> dict[tuple[str, int], tuple[Selection, float]]:
    """(gate, seed) -> an LSAMD selection with its swap profiles, and the mean validation accuracy in percent."""
    shares: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rises: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    accuracies: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for line in cells:
        run = line["selection"], int(line["seed"])
        shares[run][line["task"]].append(float(line["base_share"]))
        rises[run][line["task"]].append(float(line["swap_rise"]))
        accuracies[run][line["task"]] = 100 * float(line["accuracy"])
    return {run: (Selection(own, "batch", rises[run]), fmean(accuracies[run].values())) for run, own in shares.items()}
