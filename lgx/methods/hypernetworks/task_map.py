"""How a hypernetwork's encoder embeds architectures under each task, and whether it separates tasks (TAL, Fig. 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from lgx.architectures import Architecture, name_of
from lgx.hypernet import Hypernet, computational_graph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = range(3, 13)
"""Layers of the paper's ten descendants."""


@cache
def _parameters(architecture: Architecture) -> int:
    return architecture.count_parameters()


@dataclass(frozen=True)
class Point:
    """One architecture under one task.

    Attributes:
        task: Name of the task.
        architecture: Name of the architecture.
        parameters: Its number of parameters.
        x: First principal component of the embedded graph.
        y: Second.
    """

    task: str
    architecture: str
    parameters: int
    x: float
    y: float


@dataclass(frozen=True)
class TaskMap:
    """Embedded graphs in the plane of their two principal components.

    Attributes:
        points: A point per task and architecture, task by task.
        explained: Shares of the variance along the two axes.
        silhouette: Mean silhouette of the embedded graphs with their tasks as clusters, in [-1, 1]: 1 where tasks lie
            far apart, 0 or less where the task makes no difference. None for one task or one architecture, where it is
            undefined.
        plane_silhouette: The same of the points in the plane.
    """

    points: tuple[Point, ...]
    explained: tuple[float, float]
    silhouette: float | None
    plane_silhouette: float | None


def task_map(
    hypernet: Hypernet,
    embeddings: Mapping[str, Tensor],
    architectures: Sequence[Architecture],
    classes: Mapping[str, int] | None = None,
) -> TaskMap:
    """Embed every architecture under every task, and map the embeddings.

    The number of classes is a part of a graph (the head's shape). Tasks with different numbers of classes are therefore
    separated even where the encoder ignores the task. The paper does not say which heads it used.

    Args:
        hypernet: A hypernetwork with task conditioning.
        embeddings: Task embedding by task, (T,) each.
        architectures: What is embedded, at least two points in all.
        classes: Number of classes by task, which gives each task its own heads. None takes the architectures as they
            are, so that only the task embedding differs between tasks.
    """
    embedded = {}
    for task, embedding in embeddings.items():
        heads = architectures if classes is None else [a.replace(num_classes=classes[task]) for a in architectures]
        embedded[task] = embed_graphs(hypernet, heads, embedding)
    return project(embedded, architectures)


@torch.no_grad()
def embed_graphs(hypernet: Hypernet, architectures: Sequence[Architecture], embedding: Tensor) -> Tensor:
    """Mean over the nodes of every graph behind the encoder, (A, D) of A architectures under one task (T,)."""
    graphs = [computational_graph(architecture, hypernet.config.convention) for architecture in architectures]
    nodes = hypernet.encode(graphs, embedding)
    means = [x[: len(graph.nodes)].mean(dim=0) for x, graph in zip(nodes, graphs, strict=True)]
    return torch.stack(means).float().cpu()


def project(embedded: Mapping[str, Tensor], architectures: Sequence[Architecture]) -> TaskMap:
    """Map embedded graphs by PCA.

    Args:
        embedded: Embeddings of the A architectures by task, (A, D) each, D at least 2.
        architectures: The architectures.
    """
    from sklearn.decomposition import PCA

    stacked = torch.cat(list(embedded.values())).double().numpy()
    with np.errstate(invalid="ignore"):  # the explained shares of zero variance are NaN
        pca = PCA(2, svd_solver="full").fit(stacked)
    plane = pca.transform(stacked)
    first, second = np.nan_to_num(pca.explained_variance_ratio_).tolist()
    members = [(task, architecture) for task in embedded for architecture in architectures]
    points = tuple(
        Point(task, name_of(architecture), _parameters(architecture), float(x), float(y))
        for (task, architecture), (x, y) in zip(members, plane, strict=True)
    )
    tasks = [task for task, _ in members]
    return TaskMap(points, (first, second), _silhouette(stacked, tasks), _silhouette(plane, tasks))


def _silhouette(embedded: np.ndarray, tasks: Sequence[str]) -> float | None:
    from sklearn.metrics import silhouette_score

    clusters = len(set(tasks))
    return float(silhouette_score(embedded, tasks)) if 1 < clusters < len(tasks) else None


_LARGEST = 120
"""Area of the largest point, square points."""


def task_figure(task_map: TaskMap) -> "Figure":
    """Draw embedded graphs in the plane (TAL, Fig. 3): a color for each task, larger points for more parameters."""
    import matplotlib as mpl
    from matplotlib.lines import Line2D

    from lgx.components.figures import make_panels, plain

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
