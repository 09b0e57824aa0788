"""``lgx analyze``: how a hypernetwork sees tasks, what training makes of parameters, which paths a search found."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lgx.architectures import Architecture
    from lgx.methods.hypernetworks.task_map import TaskMap


def tasks(
    *,
    learngene: str,
    task_embeddings: str | None = None,
    tasks: str | None = None,
    archs: str | None = None,
    heads: Literal["same", "own"] = "same",
    out: str = "tasks.svg",
    json: bool = False,
) -> None:
    """Draw where the encoder puts architectures under different tasks, and say how well tasks lie apart.

    A point is the mean over the nodes of an architecture's graph behind the encoder, in the plane of the two principal
    components (TAL, Fig. 3). The silhouette is 1 where the tasks lie far apart, near or below 0 where the task makes no
    difference.

    The number of classes is part of a graph, so that tasks with heads of their own lie apart even where the encoder
    ignores the task; the paper does not say which it took. The figure therefore shows heads of one size, which nothing
    but the task's embedding tells apart; the silhouettes are given for both.

    Args:
        learngene: Learngene file of a task-aware hypernetwork (tal).
        task_embeddings: File of `lgx embed`, instead of the tasks that the learngene was tuned on.
        tasks: Only these tasks, separated by commas.
        archs: Architectures, separated by commas, or by semicolons where they are specs; 3-Small to 12-Small, or
            of text 3-GPT2 to 12-GPT2, by default. What they read is what the learngene's do unless a spec names it.
        heads: What the figure shows: heads of the size that the hypernetwork was made for, or of each task's own.
        out: Figure to write, ending in .svg.
        json: Print JSON, with all points, instead of a table.

    Raises:
        UserError: If the learngene has no task conditioning, or there are fewer than two tasks.
    """
    from dataclasses import asdict

    from lgx.components.figures import write_svg
    from lgx.errors import UserError
    from lgx.methods.hypernetworks.initializer import HypernetPrediction
    from lgx.methods.hypernetworks.task_figure import task_figure
    from lgx.methods.hypernetworks.task_map import task_map

    if not out.endswith(".svg"):
        raise UserError(f"--out: a path ending in .svg, got {out}")
    source = HypernetPrediction(learngene, task_embeddings=task_embeddings)
    hypernet, where = source.loaded, task_embeddings or learngene
    if source.learngene is None or hypernet.config.task_width is None:
        raise UserError(f"{learngene}: was never told of tasks; give a learngene that TAL tuned with task embeddings")
    known = source.known_tasks
    names = _parts(tasks, ",") if tasks else list(known.tensors)
    if len(names) < 2:
        raise UserError(
            f"{where}: a map needs the embeddings of at least two tasks, got {', '.join(names) or 'none'}; "
            f"make more with `lgx embed` (--task_embeddings)"
        )
    embeddings = {name: known.of(name, where) for name in names}
    if known.width != hypernet.config.task_width:
        raise UserError(
            f"{where}: has embeddings of {known.width} numbers, but {learngene} was tuned with "
            f"{hypernet.config.task_width}; make them with the same ancestor"
        )
    members = _architectures(archs, source.learngene.architecture, hypernet.config.num_classes)
    classes = {name: int(known.tasks.get(name, {}).get("num_classes", 0)) for name in names}
    maps = {"same": task_map(hypernet, embeddings, members)}
    if all(classes.values()):
        maps["own"] = task_map(hypernet, embeddings, members, classes)
    elif heads == "own":
        lacking = ", ".join(name for name, count in classes.items() if not count)
        raise UserError(f"--heads own: {where} does not say how many classes {lacking} has")
    write_svg(task_figure(maps[heads]), out, "tasks")
    if json:
        print(json_module.dumps({"figure": heads, **{name: asdict(shown) for name, shown in maps.items()}}, indent=1))
        return
    _print_maps(maps, hypernet.config.num_classes)
    print(f"written   {out}: {len(names)} tasks x {len(members)} architectures, {heads} heads")


def parameters(
    *,
    start: str,
    trained: str,
    other: str | None = None,
    threshold: float = 0.01,
    json: bool = False,
) -> None:
    """Compare a network's parameters before and after training (TAL, rebuttal, Table 4).

    Sparsity: share of parameters with |w| below a threshold. Change magnitude: ‖w1 - w0‖ / ‖w0‖. Diversity: mean
    cosine distance between networks that differ in the seed. Each takes all parameters as one vector.

    Args:
        start: The network before training: learngene file, folder, checkpoint, timm model name, or the weights alone
            that `lgx init --out FILE.safetensors` writes.
        trained: The same network after training.
        other: The trained networks of other seeds, separated by commas; without one there is no diversity.
        threshold: What counts as close to zero. The rebuttal does not say; 0.01 is half the standard deviation of a
            ViT's random start.
        json: Print JSON instead of a table.

    Raises:
        UserError: If a network cannot be read or the networks differ in architecture.
    """
    from lgx.errors import UserError
    from lgx.results.parameters import change_magnitude, check_alike, diversity, read_parameters, sparsity

    if threshold <= 0:
        raise UserError(f"--threshold: must be positive, got {threshold}")
    seeds = list(dict.fromkeys([trained, *_parts(other, ",")]))
    networks = {name: read_parameters(name) for name in (start, *seeds)}
    check_alike(networks)
    shares = {name: sparsity(networks[name], threshold) for name in (start, trained)}
    change = change_magnitude(networks[start], networks[trained])
    distance = diversity([networks[name] for name in seeds]) if len(seeds) > 1 else None
    if json:
        facts = {"start": start, "trained": seeds, "threshold": threshold}
        facts |= {"sparsity_start": shares[start], "sparsity_trained": shares[trained]}
        print(json_module.dumps({**facts, "change_magnitude": change, "diversity": distance}, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("", "start", "trained")
    table.add_row(f"sparsity, |w| < {threshold:g} (%)", f"{100 * shares[start]:.2f}", f"{100 * shares[trained]:.2f}")
    table.add_row("change magnitude", "–", f"{change:.4f}")
    table.add_row(f"diversity of {len(seeds)}", "–", "–" if distance is None else f"{distance:.4f}")
    Console().print(table)


def paths(*, runs: str, out: str = "paths.svg", json: bool = False) -> None:
    """Draw which blocks the data sets of a search prefer, and what two searches have in common (LSAMD, Fig. 7).

    Args:
        runs: Folders of runs of LSAMD, or checkpoints, separated by commas; with two that searched the same data sets,
            by batch and by image say, the layers whose base block both use are listed too.
        out: Figure to write, ending in .svg.
        json: Print JSON instead of tables.

    Raises:
        UserError: If a run is no search.
    """
    from lgx.commands.extract import print_paths
    from lgx.components.figures import write_svg
    from lgx.errors import UserError
    from lgx.methods.lsamd.figure import routing_figure
    from lgx.methods.lsamd.selection import SelectionRun, common_layers

    if not out.endswith(".svg"):
        raise UserError(f"--out: a path ending in .svg, got {out}")
    names = _parts(runs, ",")
    if not names:
        raise UserError("--runs: name at least one run of LSAMD")
    found = {name: SelectionRun.load(name) for name in names}
    titles = {f"{'/'.join(Path(name).parts[-2:])} ({run.selection.routing})": run for name, run in found.items()}
    if len(titles) < len(found):  # runs of one name in two folders
        titles = {f"{name} ({run.selection.routing})": run for name, run in found.items()}
    write_svg(routing_figure({title: run.selection.base_share for title, run in titles.items()}), out, "paths")
    first, *others = found.values()
    common = common_layers(first.selection, others[0].selection) if len(others) == 1 else {}
    if json:
        selections = {name: run.selection for name, run in found.items()}
        shown = {name: {"usage": selection.usage, "paths": selection.paths} for name, selection in selections.items()}
        print(json_module.dumps({"runs": shown, "common": common}, indent=1))
        return
    for name, run in found.items():
        print(name)
        print_paths(run.selection)
    for task, layers in common.items():
        print(f"both      {task}: {' '.join(map(str, layers)) or 'no layer'}")
    print(f"written   {out}")


def _parts(text: str | None, separator: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in (text or "").split(separator) if part.strip()))


def _architectures(archs: str | None, base: "Architecture", num_classes: int) -> "list[Architecture]":
    from lgx.architectures import parse_like
    from lgx.errors import UserError
    from lgx.methods.hypernetworks.task_map import DEPTHS

    size = "GPT2" if base.kind == "text" else "Small"
    texts = [f"{depth}-{size}" for depth in DEPTHS]
    if archs is not None:
        texts = _parts(archs, ";" if "=" in archs else ",")
    if not texts:
        raise UserError("--archs: name at least one architecture")
    return [parse_like(text, base.replace(num_classes=num_classes)) for text in texts]


def _print_maps(maps: "dict[str, TaskMap]", num_classes: int) -> None:
    from rich.console import Console
    from rich.table import Table

    def shown(value: float | None) -> str:
        return "undefined" if value is None else f"{value:.3f}"

    table = Table("heads", "silhouette by task", "in the plane", "variance in the plane (%)")
    for name, found in maps.items():
        head = f"same, {num_classes} classes" if name == "same" else "each task's own"
        share = f"{100 * sum(found.explained):.1f}"
        table.add_row(head, shown(found.silhouette), shown(found.plane_silhouette), share)
    Console().print(table)
    same = maps["same"].silhouette
    if same is None:
        print("One architecture per task: a silhouette needs several; name more with --archs.")
    elif same <= 0:
        print("With heads of one size the tasks do not lie apart: the encoder makes little or nothing of the task.")


COMMANDS = {"tasks": tasks, "parameters": parameters, "paths": paths}
