"""``lgx plan``: what a run takes, before it starts."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from jsonargparse import ArgumentParser


def main(argv: list[str]) -> None:
    """Print what a run of ``lgx fit`` with the same options takes; nothing is read that may not be there yet.

    Args:
        argv: Any options of ``lgx fit``, and those of :class:`~lgx.planning.configured.PlanOptions`.

    Raises:
        UserError: For whatever is wrong with them, in one sentence.
    """
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return
    import json

    from rich.console import Console

    from lgx.host.files import atomic_path
    from lgx.host.outputs import check_file
    from lgx.planning import configure, plan_of
    from lgx.planning.table import plan_table
    from lgx.training.parsing import config_files

    run = configure(argv)
    if run.options.json:
        force, reads = run.options.force, config_files(argv)
        check_file(run.options.json, "lgx plan", _is_own, force=force, reads=reads, option="--json")
    plan = plan_of(run)
    Console().print(plan_table(plan))
    if run.options.json:
        with atomic_path(run.options.json) as temporary:
            temporary.write_text(json.dumps(plan.to_dict(), indent=2) + "\n", encoding="utf-8")


def parsers() -> "list[ArgumentParser]":
    """The parser of ``lgx fit`` with the options of a plan."""
    from lgx.planning.configured import PlanOptions
    from lgx.training.configuration import make_parser

    return [make_parser("fit", PlanOptions)]


def _is_own(file: "Path") -> bool:
    """Whether a file holds a plan."""
    from lgx.errors import UserError
    from lgx.host.safety import read_json

    try:
        found = read_json(file, "")
    except UserError:
        return False
    return isinstance(found, dict) and {"steps", "memory", "flops", "data_bytes"} <= found.keys()


def _help() -> str:
    """Usage; the options' meaning stands where they are defined."""
    from docstring_parser import parse as parse_docstring

    from lgx.planning.configured import PlanOptions

    known = {entry.arg_name: entry.description or "" for entry in parse_docstring(PlanOptions.__doc__ or "").params}
    lines = "\n".join(f"  --{name:<12}{' '.join(known[name].split())}" for name in PlanOptions.__annotations__)
    return (
        "usage: lgx plan --config FILE [options of lgx fit] [--gpus N] [--nodes N] …\n\n"
        "Steps, effective batch, parameters, FLOPs, memory per GPU, data volume, files and hours of a run, before it\n"
        f"starts. Data, ancestor and learngene need not be there yet.\n\n{lines}\n\nAll others: see lgx fit --help."
    )
