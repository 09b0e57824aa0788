"""``python -m experiments.analyze``: maps of tasks, parameters, paths of a selection, length, rotations, MACs."""

import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lgx.commands.run import call_one_of
from lgx.errors import UserError
from lgx.host.failures import describe
from lgx.host.files import check_output, has_mark

PROGRAM = "python -m experiments.analyze"
MARK = f"<!-- written by {PROGRAM} -->\n"
"""What stands before a figure that was drawn here."""


def tasks(
    *,
    source: str,
    task_embeddings: str | None = None,
    tasks: str | None = None,
    archs: str | None = None,
    out: str = "tasks.svg",
    force: bool = False,
) -> None:
    """Draw where the encoder places architectures under different tasks, and measure how well it separates the tasks.

    A point is the mean over the nodes of an architecture's graph behind the encoder, in the plane of the two principal
    components (TAL, Fig. 3). The silhouette is 1 where the tasks are far apart, and near or below 0 where the task
    makes no difference. All heads have the size that the hypernetwork was made for, so that only the embedding of the
    task differs; the paper does not say which heads it took.

    Args:
        source: Learngene file of a task-aware hypernetwork.
        task_embeddings: File of `lgx embed`, instead of the tasks that the learngene was tuned on.
        tasks: Only these tasks, separated by commas.
        archs: Architectures, separated by commas, or by semicolons if they are specs; by default 3-Small to 12-Small,
            or for text 3-GPT2 to 12-GPT2. They read what the learngene's reads unless a spec says otherwise.
        out: Figure to write, ending in .svg.
        force: Replace what another program wrote; what this command reads is never replaced.

    Raises:
        UserError: If the learngene has no task conditioning, there are fewer than two tasks, or the place is taken.
    """
    from experiments.analyze.task_maps import map_learngene, task_figure
    from lgx.components.figures import write_svg

    check_svg(out, force)
    members = None if archs is None else _parts(archs, ";" if "=" in archs else ",")
    found = map_learngene(source, task_embeddings, _parts(tasks), members)
    write_svg(task_figure(found), out, "tasks", MARK)
    silhouette = "undefined for one architecture" if found.silhouette is None else f"{found.silhouette:.3f}"
    print(f"silhouette by task {silhouette}; the plane has {100 * sum(found.explained):.1f} % of the variance")
    shown = len({point.task for point in found.points})
    print(f"written   {out}: {shown} tasks x {len(found.points) // shown} architectures")


def parameters(
    *,
    start: str,
    trained: str,
    other: str | None = None,
    threshold: float = 0.01,
    out: str | None = None,
    force: bool = False,
) -> None:
    """Compare a network's parameters before and after training (TAL, rebuttal, Table 4).

    Sparsity is the share of parameters with |w| below a threshold, change magnitude is ‖w1 - w0‖ / ‖w0‖, and diversity
    is the mean cosine distance between networks of different seeds. Each takes all parameters as one vector.

    Args:
        start: The network before training: learngene file, folder, checkpoint or timm model name.
        trained: The same network after training.
        other: The trained networks of other seeds, separated by commas; without them there is no diversity.
        threshold: Parameters below it count as zero. The rebuttal gives no value; 0.01 is half the standard deviation
            of a ViT's random start.
        out: CSV file to write, too.
        force: Replace what another program wrote at this place.

    Raises:
        UserError: If a network cannot be read, the networks differ in architecture, or the place is taken.
    """
    from experiments.analyze.parameters import compare_parameters
    from lgx.artifacts.sources import resolve
    from lgx.core.readable import aligned
    from lgx.host.files import atomic_path

    if threshold <= 0:
        raise UserError(f"--threshold: must be positive, got {threshold}")
    seeds = list(dict.fromkeys([trained, *_parts(other)]))
    found = compare_parameters(resolve(start).place, [resolve(seed).place for seed in seeds], threshold)
    lines = [
        ("statistic", "start", "trained"),
        (
            f"sparsity, |w| < {threshold:g} (%)",
            f"{100 * found.sparsity_start:.2f}",
            f"{100 * found.sparsity_trained:.2f}",
        ),
        ("change magnitude", "", f"{found.change_magnitude:.4f}"),
    ]
    if found.diversity is not None:
        lines.append((f"diversity of {len(seeds)}", "", f"{found.diversity:.4f}"))
    print("\n".join(aligned(lines, left=1)))
    if out:
        check_output(
            out, f"{PROGRAM} parameters", lambda file: file.read_text().startswith(",".join(lines[0])), force=force
        )
        with atomic_path(out) as path, path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)


def paths(*, runs: str, out: str = "paths.svg", force: bool = False) -> None:
    """Draw which blocks the data sets of a selection prefer, and compare selections with chance (LSAMD, Fig. 7).

    A selection found something only if it finds it again: κ and ρ compare every two runs, for example of two seeds;
    χ² compares the usage of the layers with coin flips.

    Args:
        runs: Folders of runs of LSAMD, or checkpoints, separated by commas; runs that are joined by + are one
            selection over all of their data sets. For two with the same data sets, for example routed by batch and by
            image, the layers whose base block both use are listed too.
        out: Figure to write, ending in .svg.
        force: Replace what another program wrote; what this command reads is never replaced.

    Raises:
        UserError: If a run is not one of LSAMD, or the place is taken.
    """
    from experiments.analyze.paths import comparison_lines, load_runs, preferences_figure
    from lgx.commands.extract import print_paths
    from lgx.components.figures import write_svg

    check_svg(out, force)
    found = load_runs(_parts(runs))
    write_svg(preferences_figure(found), out, "paths", MARK)
    for name, selection in found.items():
        print(name)
        print_paths(selection)
    print("\n".join(comparison_lines(found)))
    print(f"written   {out}")


def length(*, rows: str, out: str = "length.svg", force: bool = False) -> None:
    """Draw how accuracy and lead of TAL move with the steps of its hypernetwork (experiments/tal/length.yaml).

    Args:
        rows: The file of rows that the sweep wrote.
        out: Figure to write, ending in .svg.
        force: Replace what another program wrote; what this command reads is never replaced.

    Raises:
        UserError: If the rows are of another sweep, or the place is taken.
    """
    from experiments.analyze.length import length_figure, length_table
    from lgx.components.figures import write_svg
    from lgx.core.rows import read_rows

    check_svg(out, force)
    found = read_rows(rows)
    write_svg(length_figure(found), out, "length", MARK)
    print(length_table(found))
    print(f"written   {out}")


def rotate(*, source: str, data: str, out: str, images: int = 256) -> None:
    """Write an ancestor that computes the same, with its principal components as the dimensions of its layers.

    Args:
        source: Model folder of a ViT of timm, such as DeiT.
        data: Folder with images; labels are not read.
        out: Folder to write.
        images: Images on which the components are computed.

    Raises:
        UserError: If the source or the images cannot be read, or the place is taken.
    """
    from experiments.analyze.rotation import rotate_ancestor
    from lgx.artifacts.pretrained import load_pretrained
    from lgx.artifacts.sources import resolve

    if Path(out).exists():
        raise UserError(f"--out {out}: exists; give a new folder")
    rotate_ancestor(load_pretrained(resolve(source).place), data, images, Path(out))
    print(f"written   {out}")


def check_svg(out: str, force: bool) -> None:
    """Refuse a place for a figure. What the commands read never ends in .svg."""
    if not out.endswith(".svg"):
        raise UserError(f"--out: a path ending in .svg, got {out}")
    check_output(out, PROGRAM, lambda file: has_mark(file, MARK), force=force)


def _parts(text: str | None, separator: str = ",") -> list[str]:
    return list(dict.fromkeys(part.strip() for part in (text or "").split(separator) if part.strip()))


def macs(names: list[str], num_classes: int = 1000) -> None:
    """Print parameters and MACs as LSAMD's Table 2 counts them; `lgx arch` counts everything.

    Args:
        names: Names (Des-B-5) or specifications of ViTs.
        num_classes: Number of classes of the head.

    Raises:
        UserError: If a name is unknown or that of a text model.
    """
    from experiments.analyze.module_costs import cost_in_modules
    from lgx.architectures import parse_architecture
    from lgx.core.readable import aligned

    costs = {name: cost_in_modules(parse_architecture(name, num_classes=num_classes)) for name in names}
    lines = [(name, f"{cost.parameters / 1e6:.2f} M", f"{cost.macs / 1e9:.2f} G") for name, cost in costs.items()]
    print("\n".join(aligned([("architecture", "parameters", "MACs"), *lines], left=1)))


COMMANDS: dict[str, Callable[..., None]] = {
    "tasks": tasks, "parameters": parameters, "paths": paths, "length": length, "rotate": rotate, "macs": macs,
}  # fmt: skip


def main(argv: Sequence[str]) -> None:
    """Run one analysis.

    Args:
        argv: Its name and its options.

    Raises:
        SystemExit: With exit code 2 for a user's mistake, 1 for a failure of the system.
    """
    try:
        call_one_of(PROGRAM, COMMANDS, argv)
    except (UserError, OSError) as error:
        print(f"{PROGRAM}: {describe(error) or error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, UserError) else 1) from error


if __name__ == "__main__":
    main(sys.argv[1:])
