"""Figure of a task-aware hypernetwork: embedded architectures under each task."""

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lgx.components.figures import make_panels, plain
from lgx.methods.hypernetworks.task_map import TaskMap

_LARGEST = 120
"""Area of the largest point, square points."""


def task_figure(task_map: TaskMap) -> Figure:
    """Draw embedded graphs in the plane (TAL, Fig. 3): a color for each task, larger points for more parameters.

    Args:
        task_map: The points.
    """
    figure, (axes,) = make_panels(1)
    most = max(point.parameters for point in task_map.points)
    tasks = list(dict.fromkeys(point.task for point in task_map.points))
    colors = mpl.colormaps["tab10"] if len(tasks) <= 10 else mpl.colormaps["turbo"].resampled(len(tasks))
    for i, task in enumerate(tasks):
        points = [point for point in task_map.points if point.task == task]
        axes.scatter(
            [point.x for point in points],
            [point.y for point in points],
            s=[_LARGEST * point.parameters / most for point in points],
            color=colors(i), edgecolors="white", linewidths=0.5, alpha=0.8,
        )  # fmt: skip
    across, up = (f"{100 * share:.0f} % of the variance" for share in task_map.explained)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if task_map.silhouette is not None:
        axes.set_title(f"silhouette by task {task_map.silhouette:.2f}")
    dots = [Line2D([], [], color=colors(i), linestyle="", marker="o") for i in range(len(tasks))]
    names = [plain(task) for task in tasks]
    figure.legend(dots, names, title="size: parameters", loc="outside right upper", frameon=False)
    return figure
