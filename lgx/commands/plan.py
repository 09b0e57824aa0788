"""``lgx plan``: compute the cost of a run before it starts."""


def main(argv: list[str]) -> None:
    """Print the cost of a run of ``lgx fit`` with the same options; its data and sources may be absent.

    Args:
        argv: Any options of ``lgx fit``, and those of :class:`~lgx.planning.configured.PlanOptions`.
    """
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return
    import json

    from rich.console import Console

    from lgx.planning import configure, plan_of
    from lgx.planning.table import plan_table

    run = configure(argv)
    plan = plan_of(run)
    if run.options.json:
        print(json.dumps(plan.to_dict(), indent=2))
    else:
        Console().print(plan_table(plan))


def _help() -> str:
    """The usage text; the help of each option comes from its definition."""
    from docstring_parser import parse as parse_docstring

    from lgx.planning.configured import PlanOptions

    known = {entry.arg_name: entry.description or "" for entry in parse_docstring(PlanOptions.__doc__ or "").params}
    lines = "\n".join(f"  --{name:<12}{' '.join(known[name].split())}" for name in PlanOptions.__annotations__)
    return (
        "usage: lgx plan --config FILE [options of lgx fit] [--gpus N] [--nodes N] …\n\n"
        "Steps, effective batch, parameters, FLOPs, memory per GPU, data volume, files and hours of a run, before it\n"
        f"starts. Data, ancestor and learngene may still be absent.\n\n{lines}\n\nAll other options: lgx fit --help."
    )
