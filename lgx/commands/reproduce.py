"""``lgx reproduce``: a table or figure of the papers, from nothing to the verdict on its claims."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lgx.results.reproduction import Recipe, Scale

ALL = "all"


def main(argv: list[str]) -> None:
    """Reproduce one table, or list them all.

    Args:
        argv: ``--list``, or the arguments of :func:`reproduce`.
    """
    from lgx.commands.run import call

    if argv == ["--list"]:
        _list()
    else:
        call("lgx reproduce", reproduce, argv or ["--help"])


def reproduce(
    table: str,
    scale: Literal["pocket", "mini", "paper"] = "pocket",
    measured: bool = False,
    dry_run: bool = False,
    tflops: float | None = None,
    mfu: float = 0.4,
    samples: str | None = None,
    out: str | None = None,
) -> None:
    """Run what a table or figure of the papers needs, and say which of the paper's claims hold; --list shows them all.

    What is there already is not made again, so that a command that was stopped goes on where it stopped. The scales:
    pocket takes minutes on a CPU and downloads nothing; mini takes hours on a CPU, with small real data sets; paper
    takes what the paper took, on GPUs. Runs lie below runs/.

    Args:
        table: Its name, e.g. tal/table2 or lsamd/figure7; all for every one that has this scale.
        scale: How large.
        measured: Show what was measured before, whose rows lie in experiments/results, and run nothing.
        dry_run: Print the command lines instead of running them.
        tflops: With dry_run, what a GPU does at best, in TFLOP/s, e.g. 312: tells the GPU hours of every sweep.
        mfu: Share of tflops that training reaches.
        samples: With tflops, training examples of sets whose number the files alone tell: ham10000=7211.
        out: Folder for report.html, results.md and results.csv; by default runs/reproduce/SCALE/TABLE.
    """
    from lgx.errors import UserError
    from lgx.results.reproduction import load_recipe, load_recipes

    chosen = [r for r in load_recipes().values() if scale in r.scales] if table == ALL else [load_recipe(table)]
    if measured and table == ALL:
        chosen = [recipe for recipe in chosen if recipe.scales[scale].measured]
    for recipe in chosen:
        how = recipe.at(scale)
        print(f"{recipe.name}, {scale} scale: {recipe.title}", flush=True)
        if measured and not how.measured:
            raise UserError(f"--measured: {recipe.name} was not measured at {scale} scale; leave it out to measure it")
        place = Path(out) if out and table != ALL else Path(out or f"runs/reproduce/{scale}") / recipe.name
        if dry_run:
            _tell(how, tflops, mfu, samples)
        else:
            _one(recipe, how, measured, place)


def _tell(how: "Scale", tflops: float | None, mfu: float, samples: str | None) -> None:
    """What would be run, and for how long."""
    from lgx.planning import sweep_hours

    for step in how.steps:
        print(f"  {step}{'  (done)' if step.done else ''}", flush=True)
        if tflops is not None and step.arguments[0] == "sweep":
            planned = sweep_hours(step.arguments[1], tflops, mfu, samples)
            print(f"      {planned.runs} runs that train, {planned.hours:,.3g} GPU hours", flush=True)


def _one(recipe: "Recipe", how: "Scale", measured: bool, out: Path) -> None:
    import shlex

    from lgx.cli import run_command
    from lgx.results.comparison import Choice, show
    from lgx.results.reproduction import run_steps

    if not measured:
        run_steps(how.steps, run_command)
    results = how.measured if measured else how.results
    if results:
        tasks, methods = (",".join(names) or None for names in (how.tasks, how.methods))
        choice = Choice(how.metric, how.split, methods=methods, tasks=tasks)
        show(results, choice, recipe.numbers, str(out), claims=recipe.claims)
    if not measured:
        out.mkdir(parents=True, exist_ok=True)
        for line in how.show:
            run_command(shlex.split(line.format(out=out)))


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from lgx.results.reproduction import load_recipes

    table = Table(title="Tables and figures")
    for heading in ("name", "shows", "scales", "claims"):
        table.add_column(heading, justify="right" if heading == "claims" else "left", overflow="fold")
    for recipe in load_recipes().values():
        scales = [scale + " (measured)" * bool(how.measured) for scale, how in recipe.scales.items()]
        table.add_row(recipe.name, recipe.title, ", ".join(scales), str(len(recipe.claims)))
    Console(width=None if sys.stdout.isatty() else 150).print(table)
