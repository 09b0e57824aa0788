"""A plan as a table for the terminal."""

from collections.abc import Iterator

from rich.table import Table

from lgx.planning.plan import Plan

Line = tuple[str, str, str]
"""Name, value and explanation."""


def plan_table(plan: Plan) -> Table:
    """Every number of a plan with its explanation."""
    many, on_gpu = plan.gpus * plan.nodes, plan.device == "GPU"
    gpus = f"{many} GPU{'s' * (many > 1)}" if on_gpu else f"{many} process{'es' * (many > 1)} on a CPU"
    nodes = f" ({plan.nodes} nodes x {plan.gpus})" if plan.nodes > 1 else ""
    title = f"{plan.model} {plan.architecture} on {plan.task}: {gpus}{nodes}, {plan.precision}"
    table = Table("", "", "", title=title, show_header=False, caption="\n".join(plan.notes), caption_justify="left")
    table.columns[1].justify = "right"
    for lines in (_length(plan), _work(plan), _memory(plan), _files(plan), _time(plan)):
        for line in lines:
            table.add_row(*line)
        table.add_section()
    return table


def _length(plan: Plan) -> Iterator[Line]:
    steps = plan.steps
    yield "optimizer steps", f"{steps.total:,}", f"{steps.per_epoch:,} an epoch, {steps.epochs:.4g} epochs"
    unit = "GPUs" if plan.device == "GPU" else "processes"
    parts = f"{steps.batch:,} x {steps.accumulate} accumulated x {steps.processes} {unit}"
    yield "effective batch", f"{steps.effective_batch:,}", parts
    yield "examples seen", amount(steps.samples), f"{steps.samples_per_epoch:,} of {steps.training_examples:,} an epoch"
    volume = f"{size(plan.example_bytes)} per example at the network's input, decoded"
    yield "data", size(plan.example_bytes * steps.samples), volume


def _work(plan: Plan) -> Iterator[Line]:
    parameters, flops = plan.parameters, plan.flops
    beside = [f"{amount(parameters.frozen)} frozen"] * (parameters.frozen > 0)
    beside += [f"{amount(parameters.teacher)} of the teacher"] * (parameters.teacher > 0)
    yield "parameters trained", amount(parameters.trained), ", ".join(beside)
    yield "FLOPs forward", amount(flops.forward), "per example; 2 per multiply-accumulate"
    if flops.teacher:
        yield "FLOPs of the teacher", amount(flops.teacher), "an example"
    terms = "3 x forward" + " + 1 x teacher" * bool(flops.teacher)
    yield "FLOPs of training", amount(flops.example), f"an example: {terms}"
    yield "FLOPs in all", f"{plan.total_flops:.3g}", ""


def _memory(plan: Plan) -> Iterator[Line]:
    memory = plan.memory
    more = "and temporary memory of kernels" + (", and CUDA itself" if plan.device == "GPU" else "")
    yield f"memory per {'GPU' if plan.device == 'GPU' else 'process'}", size(memory.total), more
    yield "  activations", size(memory.activations), f"a batch of {plan.steps.batch:,}"
    yield "  weights", size(memory.weights), ""
    if memory.teacher:
        yield "  teacher", size(memory.teacher), ""
    yield "  gradients", size(memory.gradients), ""
    yield "  optimizer", "?" if memory.optimizer is None else size(memory.optimizer), ""
    if memory.buckets:
        yield "  DDP's buckets", size(memory.buckets), "gradients in transfer to other GPUs"


def _files(plan: Plan) -> Iterator[Line]:
    yield "checkpoint", size(plan.checkpoint_bytes), "each, best and last"
    if plan.learngene_bytes is not None:
        yield "learngene", size(plan.learngene_bytes), ""


def _time(plan: Plan) -> Iterator[Line]:
    if plan.hours is None or plan.throughput is None:
        yield "time", "?", "give --throughput, or --tflops and --mfu"
        return
    words = f"of training, without validation and tests: {plan.hours * plan.steps.processes:.3g} GPU hours"
    yield "time", duration(plan.hours), words
    yield "examples a second", amount(plan.throughput), "per GPU, as given"


def duration(hours: float) -> str:
    """Hours in a unit that fits: ``3.99 h``."""
    for unit, each in (("s", 1 / 3600), ("min", 1 / 60)):
        if hours < 60 * each:
            return f"{hours / each:.3g} {unit}"
    return f"{hours:,.3g} h" if hours < 1000 else f"{hours:,.0f} h"


def size(number: float) -> str:
    """Bytes in a unit that fits: ``21.1 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.4g} TiB"


def amount(number: float) -> str:
    """A number in a unit that fits: ``36.9 M``."""
    for unit in ("", " k", " M", " G", " T", " P"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.4g} E"
