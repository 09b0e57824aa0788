"""Maps of the tasks of a task-aware hypernetwork (TAL, Fig. 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from lgx.architectures import Architecture, name_of, parse_like
from lgx.errors import UserError
from lgx.hypernet import Hypernet, computational_graph
from lgx.methods.hypernetworks.initializer import HypernetPrediction

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DEPTHS = range(3, 13)
"""Layers of the paper's ten descendants."""


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
    """

    points: tuple[Point, ...]
    explained: tuple[float, float]
    silhouette: float | None


def task_map(hypernet: Hypernet, embeddings: Mapping[str, Tensor], architectures: Sequence[Architecture]) -> TaskMap:
    """Embed every architecture under every task, and map the embeddings.

    Args:
        hypernet: A hypernetwork with task conditioning.
        embeddings: Task embedding by task, (T,) each.
        architectures: What is embedded, at least two points in all.
    """
    embedded = {task: embed_graphs(hypernet, architectures, embedding) for task, embedding in embeddings.items()}
    return project(embedded, architectures)


@torch.no_grad()
def embed_graphs(hypernet: Hypernet, architectures: Sequence[Architecture], embedding: Tensor) -> Tensor:
    """Mean over the nodes of every graph behind the encoder, (A, D) of A architectures under one task (T,)."""
    graphs = [computational_graph(architecture, hypernet.config.convention) for architecture in architectures]
    nodes = hypernet.encode(graphs, embedding)
    means = [x[: len(graph.nodes)].mean(dim=0) for x, graph in zip(nodes.unbind(1), graphs, strict=True)]
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
        Point(task, name_of(architecture), architecture.count_parameters(), float(x), float(y))
        for (task, architecture), (x, y) in zip(members, plane, strict=True)
    )
    tasks = [task for task, _ in members]
    return TaskMap(points, (first, second), _silhouette(stacked, tasks))


def _silhouette(embedded: np.ndarray, tasks: Sequence[str]) -> float | None:
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(embedded, tasks)) if 1 < len(set(tasks)) < len(tasks) else None


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


def map_learngene(
    learngene: str,
    task_embeddings: str | None = None,
    tasks: Sequence[str] = (),
    archs: Sequence[str] | None = None,
) -> TaskMap:
    """Map the tasks of a task-aware hypernetwork, with heads of the size that it was made for.

    The number of classes is a part of a graph (the head's shape). So tasks with heads of their own sizes would be
    separated even if the encoder ignored the task. The paper does not name its heads.

    Args:
        learngene: Its learngene file.
        task_embeddings: File of ``lgx embed``; by default the tasks that the learngene was tuned on.
        tasks: Names of the tasks; empty for all.
        archs: Architectures; by default the paper's ten depths. They read what the learngene's architecture reads,
            unless a spec says otherwise.

    Raises:
        UserError: If the learngene has no task conditioning, there are fewer than two tasks, or an embedding is
            missing.
    """
    source = HypernetPrediction(learngene, task_embeddings=task_embeddings)
    hypernet, where, known = source.loaded, task_embeddings or learngene, source.embedded_tasks
    if source.learngene is None or hypernet.config.task_width is None:
        raise UserError(f"{learngene}: does not read task embeddings; give a learngene that TAL tuned with them")
    names = list(tasks or known.tensors)
    if len(names) < 2:
        raise UserError(
            f"{where}: a map needs the embeddings of at least two tasks, got {', '.join(names) or 'none'}; "
            f"make more with `lgx embed` (--task_embeddings)"
        )
    embeddings = {name: known.of(name, where) for name in names}
    return task_map(
        hypernet, embeddings, _architectures(archs, source.learngene.architecture, hypernet.config.num_classes)
    )


def _architectures(archs: Sequence[str] | None, base: Architecture, num_classes: int) -> list[Architecture]:
    if archs is None:
        size = "GPT2" if base.kind == "text" else "Small"
        archs = [f"{depth}-{size}" for depth in DEPTHS]
    if not archs:
        raise UserError("--archs: name at least one architecture")
    return [parse_like(text, base.replace(num_classes=num_classes)) for text in archs]
