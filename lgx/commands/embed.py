"""``lgx embed``: embeddings of tasks, which a task-aware hypernetwork is told."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from data_modules.base import Images
    from lgx.batch import Task


def embed(
    *,
    ancestor: str,
    data: str,
    out: str = "task_embeddings.safetensors",
    root: str = "data",
    img_size: int | None = None,
    in_chans: int | None = None,
    limit: int | None = None,
    batch_size: int = 128,
    num_workers: int = 0,
    devices: int = 1,
    accelerator: str = "auto",
) -> None:
    """Embed tasks: the mean class-token feature of an ancestor over a task's training images (TAL, Sec. 4).

    The file that it writes tells TAL which task a network is predicted for: --model.task_embeddings in training,
    --task_embeddings in `lgx init`. For a task of your own, a folder with a few unlabelled images is enough.

    Args:
        ancestor: Learngene file, folder, checkpoint of a run, or timm model name.
        data: Data sets by name, separated by commas (cifar100,dtd; `lgx data list` shows all), or folders: with
            train/<class>/<image>, or with bare images. A folder's own name is then the task's.
        out: File to write.
        root: Folder below which data sets lie.
        img_size: Height and width of the images in pixels; by default the ancestor's.
        in_chans: 1 (grey) or 3 (RGB) channels; by default the ancestor's.
        limit: Use only so many images of each task, drawn class by class with a fixed seed.
        batch_size: Images per process and pass.
        num_workers: Loader processes.
        devices: Processes, each with a GPU of its own where there are GPUs.
        accelerator: auto, cpu or gpu.
    """
    import torch
    from lightning.fabric import Fabric
    from rich.progress import track

    from lgx.errors import UserError
    from lgx.frozen import Frozen
    from lgx.quiet import quiet
    from lgx.sources import load_source
    from lgx.task_embeddings import TaskEmbeddings, sum_features

    quiet()
    for option, value in (("limit", limit), ("img_size", img_size), ("batch_size", batch_size), ("devices", devices)):
        if value is not None and value < 1:
            raise UserError(f"--{option}: expected at least 1, got {value}")
    names = [name.strip() for name in data.split(",") if name.strip()]
    if not names:
        raise UserError("--data: name at least one data set or folder")
    architecture = load_source(ancestor).architecture
    size = img_size or (architecture.img_size if architecture else 224)
    channels = in_chans or (architecture.in_chans if architecture else 3)
    fabric = Fabric(accelerator=accelerator, devices=devices)
    fabric.launch()
    found = TaskEmbeddings({}, ancestor)
    for name in names:
        task, images, described = _training_images(name, root, size, channels, limit)
        if task.name in found.tensors:
            raise UserError(f"--data: two tasks are called {task.name}; embed them into two files")
        loader = _loader(images, task, batch_size, num_workers, fabric.global_rank, fabric.world_size)
        teacher = Frozen.load(ancestor, task, features_only=True)
        shown = track(loader, f"embedding {task.name}", transient=True, disable=fabric.global_rank > 0)
        total, count = sum_features(teacher, (batch.to(fabric.device) for batch in shown))
        summed: Any = fabric.all_reduce(torch.cat([total, total.new_tensor([count])]), reduce_op="sum")
        found.tensors[task.name] = (summed[:-1] / summed[-1]).float()
        found.images[task.name] = int(summed[-1])
        if described:
            found.tasks[task.name] = task.to_dict()
    if fabric.global_rank == 0:
        found.save(out)
        for name, count in found.images.items():
            print(f"embedded  {name}: {count:,} images")
        print(f"written   {out}: {len(found.tensors)} embeddings of {found.width} numbers by {ancestor}")


def _training_images(
    name: str, root: str, size: int, channels: int, limit: int | None
) -> tuple["Task", "Images", bool]:
    """The task, its training images, and whether more is known of it than bare images."""
    from pathlib import Path

    import numpy as np

    from data_modules.catalogue import open_set
    from data_modules.images import IMAGE_SUFFIXES, ImageFiles, LabelledImages, stratified_order
    from lgx.batch import Task

    folder = Path(name)
    images: Any
    bare = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES) if folder.is_dir() else []
    if bare:
        task = Task(folder.resolve().name, 0, num_train=len(bare), in_chans=channels, img_size=size)
        images = ImageFiles(folder, bare, np.zeros(len(bare)), task.name)
    else:
        module = open_set(name, root, img_size=size, in_chans=channels)
        module.prepare_data()
        module.setup("fit")
        task, images = module.task, module.read("train")
    if limit is not None:
        chosen = stratified_order(images.labels, seed=0)[:limit]
        images = LabelledImages(images, np.asarray(images.labels)[chosen], task.name, chosen)
    return task, images, not bare


def _loader(images: "Images", task: "Task", batch_size: int, num_workers: int, rank: int, world_size: int) -> Any:
    from torch.utils.data import DataLoader

    from data_modules.samplers import TransformedImages, UnpaddedEvalSampler
    from data_modules.transforms import eval_transform

    return DataLoader(
        TransformedImages(images, eval_transform(task)),
        batch_size=batch_size,
        sampler=UnpaddedEvalSampler(len(images), rank, world_size),
        num_workers=num_workers,
        collate_fn=_stack,
    )


def _stack(examples: list[tuple[Any, int]]) -> Any:
    import torch

    return torch.stack([image for image, _ in examples])
