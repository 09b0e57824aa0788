"""Curves of accuracy against total compute, as pictures and in TensorBoard."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch.utils.tensorboard import SummaryWriter

from lgx.arena.points import Curve, Place
from lgx.components.figures import make_panels, plain
from lgx.components.ticks import log_ticks
from lgx.results.looks import styles


def compute_figure(curves: Mapping[str, Mapping[Place, Curve]], places: list[Place]) -> Figure:
    """Accuracy against total compute, a panel for each place, bars are 95 % intervals.

    Args:
        curves: Curves by start.
        places: Tasks and sizes of the panels.
    """
    looks = styles(curves)
    figure, panels = make_panels(len(places), legend=max(1.6, 0.6 + 0.08 * max(map(len, curves))))
    for axes, place in zip(panels, places, strict=True):
        for start, found in curves.items():
            trained = [point for point in found.get(place, ()) if point.flops.total]
            look = looks[start]
            axes.errorbar(
                [point.flops.total / 1e12 for point in trained],
                [point.summary.mean for point in trained],
                yerr=[point.summary.half_width or 0.0 for point in trained],
                color=look.color, linestyle=look.dash, marker=look.marker, markersize=4, capsize=2, linewidth=1.2,
            )  # fmt: skip
        log_ticks(axes)
        axes.set_title(plain(", ".join(place)))
        axes.set_xlabel("total compute per size (TFLOP)")
        axes.set_ylabel("accuracy (%)")
    shown = [looks[start] for start in curves]
    lines = [Line2D([], [], color=look.color, linestyle=look.dash, marker=look.marker, markersize=4) for look in shown]
    figure.legend(lines, [plain(start) for start in curves], loc="outside right upper", frameon=False)
    return figure


def write_scalars(curves: Mapping[str, Mapping[Place, Curve]], folder: Path) -> None:
    """Write the mean accuracies as scalars for TensorBoard, a run for each start; a step is 10⁹ FLOPs.

    Args:
        curves: Curves by start.
        folder: Folder of the event files, which is empty or missing.
    """
    folder.mkdir(exist_ok=True)
    for start, found in curves.items():
        with SummaryWriter(str(folder / start)) as writer:
            for (task, size), curve in found.items():
                for point in curve:
                    writer.add_scalar(
                        f"accuracy over GFLOP/{task}-{size}", point.summary.mean, point.flops.total // 1e9
                    )
