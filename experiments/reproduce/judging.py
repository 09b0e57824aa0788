"""A comparison with a verdict on each of a paper's claims."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.reproduce.beside import compare_beside
from experiments.reproduce.claims import Claim
from experiments.reproduce.paper import PaperTable, plain_name
from experiments.reproduce.storage import judge_storage
from experiments.reproduce.verdicts import MEANINGS, Verdict, judge
from lgx.core.rows import Row
from lgx.results.comparison import Comparison, Options, compare_files
from lgx.results.merging import Merged
from lgx.results.report import Cell, Section, Table


@dataclass(frozen=True)
class Judging:
    """Which claims are judged, and how.

    Attributes:
        claims: The claims.
        confounded: For claims whose two sides differ in more than the method, what else differs.
        remarks: What a reader of the verdict on a claim has to know besides.
        architectures: For claims about some architectures only, their names.
        paper_architectures: The same in the paper's table.
        stored: What methods store, see :func:`~experiments.reproduce.storage.judge_storage`.
        folders: Whether the folders of the runs tell what methods store. Not for committed rows, whose verdicts are the
            same with and without the folders.
        numbers: Name of the paper's table with printed numbers; None for none.
    """

    claims: tuple[Claim, ...] = ()
    confounded: Mapping[Claim, str] = field(default_factory=dict)
    remarks: Mapping[Claim, str] = field(default_factory=dict)
    architectures: Mapping[Claim, tuple[str, ...]] = field(default_factory=dict)
    paper_architectures: Mapping[Claim, tuple[str, ...]] = field(default_factory=dict)
    stored: Mapping[str, str] = field(default_factory=dict)
    folders: bool = True
    numbers: str | None = None


def compare_and_judge(files: Sequence[Path], options: Options, judging: Judging) -> tuple[Comparison, list[Verdict]]:
    """Compare the methods of runs, and judge claims about them.

    Args:
        files: Results files, see :func:`~lgx.results.merging.find_results`.
        options: Options of the comparison.
        judging: The claims, and the paper's table to show beside the measurements.

    Returns:
        The comparison, whose report has the verdicts, and the verdicts.

    Raises:
        UserError: If there are no such rows, methods or table.
    """
    table: PaperTable | None = None
    if judging.numbers is None:
        found = compare_files(files, options)
    else:
        found, table = compare_beside(files, options, judging.numbers)
    rows = found.of_split if options.split == "train" else found.rows  # training is all of its epochs
    verdicts = [
        _with_remarks(judge_claim(claim, rows, judging, options, table, found.merged), judging, options.labels)
        for claim in judging.claims
    ]
    if not verdicts:
        return found, verdicts
    report = found.report
    sections = [claim_section(verdicts), *report.sections]
    report = replace(report, sections=sections, introduction=[tally(verdicts), *report.introduction])
    return replace(found, report=report), verdicts


def judge_claim(
    claim: Claim,
    rows: Sequence[Row],
    judging: Judging,
    options: Options,
    table: PaperTable | None,
    merged: Merged | None = None,
) -> Verdict:
    """Judge a claim by the architectures that it is about.

    Args:
        claim: The claim.
        rows: Rows of one split.
        judging: How claims are judged.
        options: Those of the comparison, with the metric of each task.
        table: The paper's table.
        merged: Rows of all runs, with the folders that tell what methods store.
    """
    if claim in judging.architectures:
        own = {plain_name(name) for name in judging.architectures[claim]}
        rows = [row for row in rows if plain_name(row.architecture) in own]
    if table and claim in judging.paper_architectures:
        names = judging.paper_architectures[claim]
        table = replace(table, rows=tuple(row for row in table.rows if row.architecture in names))
    if claim.is_stored:
        return judge_storage(claim, rows, judging.stored, table, merged if judging.folders else None)
    return judge(claim, rows, table, options, judging.confounded.get(claim, ""))


def _with_remarks(verdict: Verdict, judging: Judging, labels: Mapping[str, str]) -> Verdict:
    """The verdict with the remark on its claim, and with the other labels under which its methods were measured."""
    names = verdict.claim.better, verdict.claim.worse
    measured = [f"{name} is {label}" for label, name in labels.items() if name in names]
    return replace(
        verdict, differs="; ".join(filter(None, (verdict.differs, judging.remarks.get(verdict.claim), *measured)))
    )


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many claims of a paper hold, as one sentence."""
    counts = Counter(verdict.answer for verdict in verdicts)
    words = ", ".join(f"{answer} {count}" for answer, count in counts.most_common())
    return f"Of {len(verdicts)} claim(s) of the paper: {words}."


def claim_section(verdicts: Sequence[Verdict]) -> Section:
    """The paper's claims and their verdicts.

    Args:
        verdicts: One for each claim, not empty.
    """
    text = (
        "The lead of the first method over the second is averaged over all tasks, architectures and epochs that both "
        "have. Own epochs: each method is compared after its last epoch. Own networks: each method is averaged over "
        "its own architectures. The columns give the lead in the paper's table and the measured lead; the measured "
        "lead is paired by seed, ± is half of a 95 % interval. Verdicts: "
        + "; ".join(f"{answer}: {meaning}" for answer, meaning in MEANINGS.items())
        + "."
    )
    factors = (
        "Stored: how many times fewer parameters the first method stores to start all descendants. It is computed."
    )
    columns = ("paper", "measured", "seeds", "cells", "verdict")
    rows = tuple((str(verdict.claim), _cells(verdict)) for verdict in verdicts)
    notes = [f"{verdict.claim}: {verdict.differs}." for verdict in verdicts if verdict.differs]
    notes += [
        f"{verdict.claim}: {verdict.seeds_needed} seeds would decide, if mean and deviation stayed as measured."
        for verdict in verdicts
        if verdict.seeds_needed is not None
    ]
    if any(verdict.undated for verdict in verdicts):
        notes.append("Some of the compared values name no commit, so that their code is unknown.")
    texts = [text, factors] if any(verdict.claim.is_stored for verdict in verdicts) else [text]
    return Section("The paper's claims", [*texts, *notes], [Table("", columns, rows, first="claim")])


def _cells(verdict: Verdict) -> tuple[Cell, ...]:
    *numbers, answer = verdict.line()
    return *map(Cell, numbers), Cell(answer, best=answer.startswith("holds"))
