"""``lgx plan``: compute the cost of a run before it starts."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lgx.core.readable import lasting

if TYPE_CHECKING:
    from rich.table import Table

    from lgx.planning import Plan


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

    descriptions = {
        entry.arg_name: entry.description or "" for entry in parse_docstring(PlanOptions.__doc__ or "").params
    }
    lines = "\n".join(f"  --{name:<12}{' '.join(descriptions[name].split())}" for name in PlanOptions.__annotations__)
    return (
        "usage: lgx plan --config FILE [options of lgx fit] [--gpus N] [--nodes N] …\n\n"
        "Steps, effective batch, parameters, FLOPs, memory per GPU, files and hours of a run, before it\n"
        f"starts. Data, ancestor and learngene may still be absent.\n\n{lines}\n\nAll other options: lgx fit --help."
    )


def plan_table(plan: "Plan") -> "Table":
    """Every number of a plan with its explanation."""
    from rich.table import Table

    many = plan.gpus * plan.nodes
    on_gpu = plan.device == "GPU"
    gpus = f"{many} GPU{'s' * (many > 1)}" if on_gpu else f"{many} process{'es' * (many > 1)} on a CPU"
    nodes = f" ({plan.nodes} nodes x {plan.gpus})" if plan.nodes > 1 else ""
    title = f"{plan.model} {plan.architecture} on {plan.task}: {gpus}{nodes}, {plan.precision}"
    table = Table("", "", "", title=title, show_header=False, caption="\n".join(plan.notes), caption_justify="left")
    table.columns[1].justify = "right"
    for line in _lines(plan):
        if line is None:
            table.add_section()
        else:
            table.add_row(*line)
    return table


def _lines(plan: "Plan") -> Iterator[tuple[str, str, str] | None]:
    """Name, value and explanation of each number; None between groups."""
    steps, parameters, flops = plan.steps, plan.parameters, plan.flops
    memory = plan.memory
    on_gpu = plan.device == "GPU"
    yield "optimizer steps", f"{steps.total:,}", f"{steps.per_epoch:,} an epoch, {steps.epochs:.4g} epochs"
    parts = f"{steps.batch:,} x {steps.accumulate} accumulated x {steps.processes} {'GPUs' if on_gpu else 'processes'}"
    yield "effective batch", f"{steps.effective_batch:,}", parts
    yield "examples seen", amount(steps.samples), f"{steps.samples_per_epoch:,} of {steps.training_examples:,} an epoch"
    yield None
    beside = [f"{amount(parameters.frozen)} frozen"] * (parameters.frozen > 0)
    beside += [f"{amount(parameters.teacher)} of the teacher"] * (parameters.teacher > 0)
    yield "parameters trained", amount(parameters.trained), ", ".join(beside)
    yield "FLOPs of training", amount(flops.example), "an example, as counted; 2 per multiply-accumulate"
    if flops.teacher:
        yield "  teacher", amount(flops.teacher), "of it"
    yield "FLOPs in total", f"{plan.total_flops:.3g}", ""
    yield None
    more = "without temporary memory of kernels" + (" and memory of CUDA" if on_gpu else "")
    yield f"memory per {'GPU' if on_gpu else 'process'}", size(memory.total), more
    yield "  activations", size(memory.activations), f"a batch of {steps.batch:,}"
    yield "  weights", size(memory.weights), ""
    if memory.teacher:
        yield "  teacher", size(memory.teacher), ""
    yield "  gradients", size(memory.gradients), ""
    yield "  optimizer", "?" if memory.optimizer is None else size(memory.optimizer), ""
    if memory.buckets:
        yield "  DDP's buckets", size(memory.buckets), "gradients in transfer to other GPUs"
    yield None
    yield "checkpoint", size(plan.checkpoint_bytes), "each: best, last, and final weights if they differ"
    if plan.learngene_bytes is not None:
        yield "learngene", size(plan.learngene_bytes), ""
    yield None
    if plan.hours is None or plan.throughput is None:
        yield "time", "?", "give --throughput, or --tflops and --mfu"
    else:
        words = f"of training, without validation and tests: {plan.hours * steps.processes:.3g} GPU hours"
        yield "time", lasting(3600 * plan.hours), words
        yield "examples a second", amount(plan.throughput), "per GPU, as given"


def _scaled(number: float, step: int, units: Sequence[str]) -> str:
    for unit in units[:-1]:
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= step
    return f"{number:.4g}{units[-1]}"


size = partial(_scaled, step=1024, units=(" B", " KiB", " MiB", " GiB", " TiB"))
"""Bytes in a unit that fits: ``21.1 GiB``."""
amount = partial(_scaled, step=1000, units=("", " k", " M", " G", " T", " P", " E"))
"""A number in a unit that fits: ``36.9 M``."""
