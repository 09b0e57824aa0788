"""Evaluation of a hypernetwork: a fixed panel of architectures with predicted parameters, without training.

How its encoder embeds architectures under each task, and whether it separates tasks (TAL, Fig. 3), is a part of it.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, name_of, parse_like
from lgx.components.metrics import was_measured
from lgx.core.batch import Batch
from lgx.core.rows import Evaluation
from lgx.core.task import shared_metric
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph, functional_forward
from lgx.methods.base import Method

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

    The number of classes is a part of a graph (the head's shape). So tasks with different numbers of classes are
    separated even if the encoder ignores the task. The paper does not name its heads.

    Args:
        hypernet: A hypernetwork with task conditioning.
        embeddings: Task embedding by task, (T,) each.
        architectures: What is embedded, at least two points in all.
        classes: Number of classes by task, which gives each task its own heads. None: unchanged architectures, so that
            only the task embedding differs between tasks.
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


def make_panel(option: str, texts: tuple[str, ...], base: Architecture) -> list[Architecture]:
    """The architectures of a panel.

    Args:
        option: Name of the option, for messages.
        texts: Names or specs.
        base: Gives classes and the size of the inputs.
    """
    members: list[Architecture] = []
    for text in texts:
        try:
            member = parse_like(text, base)
        except UserError as error:
            raise UserError(f"model.{option}: {error}") from error
        what, one, other = ("texts", "max_len", "vocab_size")
        if isinstance(base, ViTArchitecture):
            what, one, other = ("images", "img_size", "in_chans")
        if any(getattr(member, key) != getattr(base, key) for key in (one, other)):
            raise UserError(f"model.{option}: {text} has other {what} than model.arch; leave out {one} and {other}")
        members.append(member)
    if not members or len({name_of(member) for member in members}) < len(members):
        raise UserError(f"model.{option}: expected at least one architecture, without repetition")
    return members


class PanelEvaluation(Method):
    """Evaluates untrained descendants: every architecture of a panel on every task.

    Attributes:
        panel: Names or specs of the architectures that validation evaluates.
        test_panel: Those that the test evaluates.
        config: The hypernetwork's configuration.
    """

    evaluates_starts = True
    other_values = ("silhouette",)
    panel: tuple[str, ...]
    test_panel: tuple[str, ...]
    _predicted: tuple[dict[str, Tensor], ...] = ()
    _predicted_for: tuple[str, str] | None = None
    _task_map: TaskMap | None = None

    @property
    @abstractmethod
    def config(self) -> HypernetConfig:
        """The hypernetwork's configuration."""

    @cached_property
    def panels(self) -> dict[str, list[Architecture]]:
        """The architectures that validation and test evaluate."""
        base = self.architecture
        return {"val": make_panel("panel", self.panel, base), "test": make_panel("test_panel", self.test_panel, base)}

    @property
    def hypernet(self) -> Hypernet:
        """The network that is trained."""
        return cast(Hypernet, self.network)

    def task_embedding(self, task: str) -> Tensor | None:
        """The embedding of a task that the hypernetwork reads, (T,); None without task information."""
        return None

    def evaluations(self, split: str) -> list[Evaluation]:
        """Every architecture of the panel on every task, each under its own tags."""
        return [
            Evaluation(task, name_of(architecture), f"{self.tag(split, task)}/{name_of(architecture)}")
            for task in self.tasks
            for architecture in self.panels[split]
        ]

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Test every architecture of the panel, with predicted parameters, on one batch."""
        if self._predicted_for != (split, batch.task):  # batches are grouped by task
            self._predict_panel(split, batch.task)
        number, tag = list(self.tasks).index(batch.task), self.tag(split, batch.task)
        for i, (architecture, parameters) in enumerate(zip(self.panels[split], self._predicted, strict=True)):
            logits = functional_forward(architecture, parameters, batch.inputs).float()
            metrics = self.update(split, logits, batch.targets, f"_{number}_{i}")
            for name, metric in metrics.items():
                self.log(f"{tag}/{name_of(architecture)}/{name}", metric, on_step=False, on_epoch=True)

    def _predict_panel(self, split: str, task: str) -> None:
        classes, embedding = self.tasks[task].num_classes, self.task_embedding(task)
        self._predicted = ()  # frees the dense weights of one panel before the next
        descendants = [architecture.replace(num_classes=classes) for architecture in self.panels[split]]
        with torch.no_grad():
            self._predicted = tuple(self.hypernet.predict(descendant, embedding) for descendant in descendants)
        self._predicted_for = split, task

    def on_validation_epoch_start(self) -> None:
        """Predict again: the hypernetwork was trained since the last validation, or a test has another one."""
        self._predicted_for = None

    on_test_epoch_start = on_validation_epoch_start

    def on_validation_epoch_end(self) -> None:
        """Log the mean over tasks and panel, which selects the best checkpoint, and map the tasks."""
        self._log_means("val")
        trainer: Any = self._trainer
        if trainer is not None and not (trainer.sanity_checking or trainer.fast_dev_run):
            self._map_tasks()

    def _map_tasks(self) -> None:
        """Log how well the encoder separates the tasks (TAL, Fig. 3); every process computes the same."""
        embeddings = {task: self.task_embedding(task) for task in self.tasks}
        known = {task: embedding for task, embedding in embeddings.items() if embedding is not None}
        if len(known) < 2:
            return
        base = self.architecture.replace(num_classes=self.config.num_classes)
        self._task_map = task_map(self.hypernet, known, [base.replace(depth=depth) for depth in DEPTHS])
        if self._task_map.silhouette is not None:
            self.log("val/silhouette", self._task_map.silhouette, sync_dist=True)

    def figures(self) -> dict[str, "Figure"]:
        """The map of the tasks after the last validation, for at least two task embeddings."""
        return {} if self._task_map is None else {"task_map": task_figure(self._task_map)}

    def on_test_epoch_end(self) -> None:
        """Mean over tasks and panel."""
        self._log_means("test")

    def _log_means(self, split: str) -> None:
        self._predicted, self._predicted_for = (), None  # training does not need these dense weights
        means = []
        for number, (name, task) in enumerate(self.tasks.items()):
            metrics = [self.metrics_of(split, f"_{number}_{i}") for i in range(len(self.panels[split]))]
            if not all(map(was_measured, metrics)):
                continue
            means.append(torch.stack([m[task.metric].compute() for m in metrics]).mean())
            if len(self.tasks) > 1:
                self.log(f"{self.tag(split, name)}/{task.metric}", means[-1])
        if means:
            self.log(f"{split}/{shared_metric(self.tasks.values())}", torch.stack(means).mean(), prog_bar=True)
