"""The commands as Python functions: ``lgx.init``, ``lgx.embed_task``, ``lgx.load_learngene``, ``lgx.load_family``."""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from torch import nn

from lgx.architectures import Architecture, ViTArchitecture
from lgx.artifacts.export.models import name_classes
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.sources import resolve, resolve_options
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.commands.init import data_for_sizes, start_descendant
from lgx.core.eval_transforms import as_in_timm
from lgx.core.seed import seeded_rng
from lgx.core.task import Task, height_width, image_size
from lgx.errors import UserError
from lgx.initialization import Origin
from lgx.initialization.sizing import parse_budgets
from lgx.methods.initializers import initializer_for

__all__ = ["embed_task", "init", "load_family", "load_learngene"]


def init(
    source: str | Path | None = None,
    arch: str | None = None,
    *,
    method: str | None = None,
    head: int | None = None,
    num_classes: int | None = None,
    seed: int = 0,
    params: str | int | None = None,
    macs: str | int | None = None,
    latency: str | None = None,
    **options: Any,
) -> nn.Module:
    """Initialize a descendant, as ``lgx init`` does, and return it as a model of timm (for text of transformers).

    The model trains in any loop. The state of the random generators does not change.
    ``timm.data.resolve_model_data_config(model)`` gives the normalization of its images, and
    ``model.pretrained_cfg["label_names"]`` (for text ``model.config.id2label``) the classes of the source's head.

    Args:
        source: Learngene file, folder, checkpoint of a run, timm model name, or ``hf://org/name``; None for a method
            without a source.
        arch: The descendant, e.g. ``depth=6,embed_dim=384,num_heads=6``; with a budget, only the fixed values.
        method: How to use the source, e.g. ``weight_selection``; by default the method in its learngene file.
        head: Number of classes of a new random head; by default the source's head is kept.
        num_classes: Number of classes of a random start or a predicted head.
        seed: Seed of all random initialization.
        params: Budget of parameters, e.g. ``3M`` or 3_000_000.
        macs: Budget of multiply-accumulates of one example, e.g. ``1.2G``.
        latency: Budget of time of a forward pass on this machine, e.g. ``5ms``.
        options: Options of the initializer, e.g. ``task="dtd"``.

    Returns:
        The model, in training mode.

    Raises:
        UserError: If an option is wrong, or the source does not suit the descendant.
    """
    for name, count in (("head", head), ("num_classes", num_classes)):
        if count is not None and count < 1:
            raise UserError(f"{name}: expected at least 1 class, got {count}")
    budgets = parse_budgets(*(None if limit is None else str(limit) for limit in (params, macs, latency)))
    data, options = data_for_sizes({"method": method, **options}, budgets)
    _, read = resolve_options({"source": None if source is None else str(source), **options})
    initializer = initializer_for(**read, seed=seed)
    with seeded_rng(seed):
        architecture, start = start_descendant(arch, initializer, head, num_classes, seed, budgets, data)
    origin = initializer.origin()
    names = origin.label_names or ()
    is_kept = not head and len(names) == architecture.num_classes
    _describe(start.model, architecture, origin, names if is_kept else ())
    return start.model.train()


def _describe(model: Any, architecture: Architecture, origin: Origin, names: tuple[str, ...]) -> None:
    """Put the preparation of images and the names of the classes where timm and transformers keep them."""
    if not isinstance(architecture, ViTArchitecture):
        name_classes(model.config, names)
        return
    channels = architecture.in_chans
    pretrained = getattr(model, "pretrained_cfg", None) or {}
    size = (channels, *height_width(architecture.img_size))
    config: Any = {**pretrained, **as_in_timm(origin.reading.resize), "input_size": size}
    if origin.normalization:
        config |= origin.normalization.for_channels(channels)._asdict()
    model.pretrained_cfg = config | ({"label_names": list(names)} if names else {})


def load_learngene(path: str | Path) -> Learngene:
    """Read a learngene file; a foreign or damaged one is refused.

    Args:
        path: The safetensors file, ``final.learngene.safetensors`` of a run, or ``hf://org/name``.

    Raises:
        UserError: If the file is missing or damaged, or is not a learngene.
    """
    return Learngene.load(resolve(str(path)).place)


class NetworkFamily:
    """The finished networks of a family, by their sizes, e.g. ``"depth=6,embed_dim=128"``.

    Args:
        source: Folder of a run, its ``final.learngene.safetensors``, or ``hf://org/name``.

    Attributes:
        front: Validation score of each size that was measured at the end of training.

    Raises:
        UserError: If it cannot be read, or holds no family.
    """

    def __init__(self, source: str | Path) -> None:
        place = resolve(str(source)).place
        if not Path(place).exists():
            raise UserError(f"{source}: no such file or folder; give a run of `lgx fit --model Family`")
        initializer = initializer_for(source=place)
        if initializer.front is None:
            raise UserError(f"{source}: is not a family of finished networks; give a run of `lgx fit --model Family`")
        self._source = str(source)
        self.front = {initializer.size_text(size): score for size, score in initializer.front.scores.items()}

    def __getitem__(self, arch: str) -> nn.Module:
        """The network of a size, a model of timm in evaluation mode.

        Args:
            arch: What differs from the whole network, ``depth=6,embed_dim=128``; ``ancestor`` is the whole network.

        Raises:
            UserError: If the family has no such network.
        """
        return init(self._source, arch).eval()


load_family = NetworkFamily
"""Open a family of finished networks: ``lgx.load_family("runs/mine/family/seed0")["depth=6,embed_dim=128"]``."""


def embed_task(
    ancestor: str | Path,
    images: Iterable[Any],
    name: str,
    *,
    num_classes: int = 0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> TaskEmbeddings:
    """Embed a task: the mean class-token feature of an ancestor over images (TAL, Sec. 4).

    Args:
        ancestor: Learngene file, folder, checkpoint of a run, or timm model name.
        images: Batches of images, (B, C, H, W), or tuples that begin with them: any ``DataLoader``.
        name: Name of the task.
        num_classes: Number of classes, for predicted heads.
        mean: Mean of each channel for normalization; by default 0, for images in [0, 1].
        std: Standard deviation of each channel; by default 1.

    Returns:
        The embedding under the task's name; ``.save(path)`` writes the file that ``lgx.init(task_embeddings=path)`` and
        ``lgx fit`` read.

    Raises:
        UserError: If there are no images, or the ancestor cannot read them.
    """
    from lgx.artifacts.pretrained import load_pretrained
    from lgx.components.features import sum_features
    from lgx.components.teacher import Teacher

    inputs = (batch[0] if isinstance(batch, tuple | list) else batch for batch in images)
    first = next(inputs, None)
    if first is None:
        raise UserError(f"embed_task: there are no images of task {name}")
    channels = first.shape[1]
    size = image_size(*first.shape[2:])
    means = (0.0,) * channels if mean is None else tuple(mean)
    stds = (1.0,) * channels if std is None else tuple(std)
    task = Task(name, num_classes, mean=means, std=stds, in_chans=channels, img_size=size)
    source = resolve(str(ancestor))
    with seeded_rng(0):  # a network gets random values before its weights are read
        teacher = Teacher.of(load_pretrained(source.place), task, features_only=True)
    total, count = sum_features(teacher, chain([first], inputs))
    described = {name: task.to_dict()} if num_classes else {}
    return TaskEmbeddings({name: (total / count).float()}, source.name, {name: count}, described)
