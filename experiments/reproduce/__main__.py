"""``python -m experiments.reproduce``: make a table or figure of the papers, and judge the paper's claims."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from experiments.analyze.__main__ import COMMANDS as ANALYSES
from experiments.analyze.__main__ import check_svg
from experiments.analyze.__main__ import main as analyze
from experiments.reproduce.costs import costs_as_markdown
from experiments.reproduce.hours import sweep_hours
from experiments.reproduce.judged_claims import claims_as_markdown, judged_claims
from experiments.reproduce.judging import compare_and_judge
from experiments.reproduce.paper import table_names
from experiments.reproduce.recipes import Recipe, Scale, load_recipe, load_recipes, recipe_without_runs
from experiments.reproduce.steps import run_steps
from lgx.cli import main as lgx
from lgx.commands.run import call
from lgx.core.readable import escape_markdown
from lgx.errors import UserError
from lgx.host.failures import describe
from lgx.results.merging import find_results
from lgx.results.report import piped, print_report
from lgx.results.report_files import report_path, write_comparison

PROGRAM = "python -m experiments.reproduce"
ALL = "all"


def main(argv: Sequence[str]) -> None:
    """Reproduce one table, or list all tables and figures with the claims about them.

    Args:
        argv: ``--list``, ``--claims``, or the arguments of :func:`reproduce`.

    Raises:
        SystemExit: With the exit code of a step that failed, 2 for another mistake, 1 for a failure of the system.
    """
    try:
        if list(argv) == ["--list"]:
            _list()
        elif list(argv) == ["--claims"]:
            print(claims_as_markdown(judged_claims(load_recipes().values())), costs_as_markdown(), sep="\n\n")
        else:
            call(PROGRAM, reproduce, argv or ["--help"])
    except (UserError, OSError) as error:
        print(f"{PROGRAM}: {describe(error) or error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, UserError) else 1) from error


def reproduce(
    table: str,
    scale: Literal["pocket", "mini", "paper"] = "pocket",
    runs: str | None = None,
    measured: bool = False,
    dry_run: bool = False,
    tflops: float | None = None,
    mfu: float = 0.4,
    samples: str | None = None,
    out: str | None = None,
    force: bool = False,
) -> None:
    """Run what a table or figure of the papers needs, and judge the paper's claims.

    --list lists all tables and figures, and the verdict on each claim; --claims prints the verdicts, and
    what plans say of the costs, as Markdown.
    Finished steps are skipped, so that a stopped command can be repeated. Scale pocket takes minutes on a CPU and
    downloads nothing; mini takes hours on a CPU, with small real data sets; paper takes as long as the paper, on GPUs.
    Runs are written below runs/.

    Args:
        table: Name of the table or figure, e.g. tal/table2 or lsamd/figure7; all for every one that has this scale.
        scale: Scale of the runs.
        runs: Compare these with the table, and run nothing: folders or results.csv files, separated by commas.
        measured: Show earlier measurements from experiments/results, and run nothing.
        dry_run: Print the command lines instead of running them.
        tflops: With dry_run, peak speed of a GPU in TFLOP/s, e.g. 312: also print the GPU hours of every sweep.
        mfu: Share of tflops that training reaches.
        samples: With tflops, training examples of data sets whose number only their files state: ham10000=7211.
        out: Folder for report.html; by default runs/reproduce/SCALE/TABLE.
        force: Replace files in ``out`` that lgx did not write there.

    Raises:
        UserError: If there is no such table or scale, or it was not measured.
        SystemExit: If a step fails, which has said why.
    """
    if table == ALL:
        chosen = [recipe for recipe in load_recipes().values() if scale in recipe.scales]
        chosen = [recipe for recipe in chosen if recipe.scales[scale].measured or not measured]
    else:
        chosen = [_recipe(table, scale, runs)]
    for recipe in chosen:
        how = recipe.at(scale)
        print(f"{recipe.name}, {scale} scale: {recipe.title}", flush=True)
        if measured and not how.measured:
            raise UserError(f"--measured: {recipe.name} was not measured at {scale} scale; leave it out to measure it")
        folder = Path(out) if out and table != ALL else Path(out or f"runs/reproduce/{scale}") / recipe.name
        if dry_run:
            _print_steps(how, tflops, mfu, samples)
        else:
            _make(recipe, scale, measured, folder, force)


def _recipe(table: str, scale: str, runs: str | None) -> Recipe:
    """The recipe of a table, or the comparison of some runs with it."""
    if runs is None:
        return load_recipe(table)
    is_printed_only = table in table_names() and table not in load_recipes()
    recipe = recipe_without_runs(table) if is_printed_only else load_recipe(table)
    return recipe.of_runs(scale, runs.split(","))


def _print_steps(how: Scale, tflops: float | None, mfu: float, samples: str | None) -> None:
    """Print the command lines, and the GPU hours of their sweeps."""
    for step in how.steps:
        print(f"  {step}{'  (done)' if step.done else ''}", flush=True)
        if tflops is not None and step.arguments[0] == "sweep":
            planned = sweep_hours(step.arguments[1], tflops, mfu, samples)
            print(f"      {planned.runs} runs that train, {planned.hours:,.3g} GPU hours", flush=True)


def _make(recipe: Recipe, scale: str, measured: bool, out: Path, force: bool) -> None:
    """Run the steps, compare the results, and draw the figures."""
    how = recipe.at(scale)
    results = how.measured if measured else how.results
    shown = [] if measured else [_words(line, out, force) for line in how.show]
    _check_places(out if results else None, shown, force)
    if not measured:
        run_steps(how.steps)
    if results:
        files = find_results(results)
        page = report_path(out, force)
        comparison, _ = compare_and_judge(files, how.options, recipe.judging(scale, measured))
        print_report(comparison.report)
        write_comparison(comparison, page)
        print(f"wrote {page}")
    if not measured:
        out.mkdir(parents=True, exist_ok=True)
        for words in shown:
            (analyze if words[0] in ANALYSES else lgx)(words)


def _words(line: str, out: Path, force: bool) -> list[str]:
    """The words of an analysis, which draws a figure or prints something."""
    words = shlex.split(line.format(out=out))
    return [*words, "--force"] if force and "--out" in words else words


def _check_places(out: Path | None, shown: list[list[str]], force: bool) -> None:
    """Refuse the places of the report and the figures, before hours of training."""
    if out:
        report_path(out, force)
    for words in shown:
        if "--out" in words:
            check_svg(words[words.index("--out") + 1], force)


def _list() -> None:
    recipes = load_recipes()
    lines = [["name", "shows", "scales", "claims"], ["---", "---", "---", "---:"]]
    for recipe in recipes.values():
        scales = [scale + " (measured)" * bool(how.measured) for scale, how in recipe.scales.items()]
        lines.append([recipe.name, escape_markdown(recipe.title), ", ".join(scales), str(len(recipe.claims))])
    claims = claims_as_markdown(judged_claims(recipes.values()))
    print(piped(lines), "**Claims of the papers, measured at mini scale**", claims, sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
