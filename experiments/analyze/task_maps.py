"""Maps of the tasks of a task-aware hypernetwork (TAL, Fig. 3)."""

from collections.abc import Mapping, Sequence
from typing import Literal

from lgx.architectures import Architecture, parse_like
from lgx.errors import UserError
from lgx.methods.hypernetworks.initializer import HypernetPrediction
from lgx.methods.hypernetworks.panel_evaluation import DEPTHS, TaskMap, task_map

Heads = Literal["same", "own"]
"""Heads of the size that the hypernetwork was made for, or of each task's own number of classes."""


def map_learngene(
    learngene: str,
    task_embeddings: str | None = None,
    tasks: Sequence[str] = (),
    archs: Sequence[str] | None = None,
    heads: Heads = "same",
) -> tuple[dict[Heads, TaskMap], int]:
    """Map the tasks of a task-aware hypernetwork.

    Args:
        learngene: Its learngene file.
        task_embeddings: File of ``lgx embed``; by default the tasks that the learngene was tuned on.
        tasks: Names of the tasks; empty for all.
        archs: Architectures; by default the paper's ten depths. They read what the learngene's architecture reads,
            unless a spec says otherwise.
        heads: Heads that are needed; maps with each task's own heads are also made where the classes are known.

    Returns:
        The maps by heads, and the number of classes of the heads of one size.

    Raises:
        UserError: If the learngene has no task conditioning, there are fewer than two tasks, an embedding is missing
            or of another width, or the classes of tasks are needed and unknown.
    """
    source = HypernetPrediction(learngene, task_embeddings=task_embeddings)
    hypernet, where, known = source.loaded, task_embeddings or learngene, source.known_tasks
    if source.learngene is None or hypernet.config.task_width is None:
        raise UserError(f"{learngene}: does not read task embeddings; give a learngene that TAL tuned with them")
    names = list(tasks or known.tensors)
    if len(names) < 2:
        raise UserError(
            f"{where}: a map needs the embeddings of at least two tasks, got {', '.join(names) or 'none'}; "
            f"make more with `lgx embed` (--task_embeddings)"
        )
    embeddings = {name: source.embedding_of(name) for name in names}
    members = _architectures(archs, source.learngene.architecture, hypernet.config.num_classes)
    classes = {name: int(known.tasks.get(name, {}).get("num_classes", 0)) for name in names}
    maps: dict[Heads, TaskMap] = {"same": task_map(hypernet, embeddings, members)}
    if all(classes.values()):
        maps["own"] = task_map(hypernet, embeddings, members, classes)
    elif heads == "own":
        raise UserError(f"--heads own: {where} does not state the number of classes of {_without_classes(classes)}")
    return maps, hypernet.config.num_classes


def _architectures(archs: Sequence[str] | None, base: Architecture, num_classes: int) -> list[Architecture]:
    if archs is None:
        size = "GPT2" if base.kind == "text" else "Small"
        archs = [f"{depth}-{size}" for depth in DEPTHS]
    if not archs:
        raise UserError("--archs: name at least one architecture")
    return [parse_like(text, base.replace(num_classes=num_classes)) for text in archs]


def _without_classes(classes: Mapping[str, int]) -> str:
    return ", ".join(name for name, count in classes.items() if not count)
