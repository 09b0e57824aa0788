"""``lgx embed``: embeddings of tasks, which a task-aware hypernetwork is told."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from data_modules.samplers import TransformedImages
    from data_modules.tokens import Texts
    from lgx.architectures import ViTArchitecture
    from lgx.core.batch import Task


def embed(
    *,
    ancestor: str,
    data: str,
    out: str = "task_embeddings.safetensors",
    root: str = "data",
    img_size: int | None = None,
    in_chans: int | None = None,
    tokenizer: str | None = None,
    max_len: int = 128,
    source: Literal["files", "hub"] = "files",
    limit: int | None = None,
    batch_size: int = 128,
    num_workers: int = 0,
    devices: int = 1,
    accelerator: str = "auto",
) -> None:
    """Embed tasks: the mean class-token feature of an ancestor over a task's training images (TAL, Sec. 4).

    Of texts, whose ancestor is a GPT-2, the mean over the training texts of each one's mean token behind the last norm.

    The file that it writes tells TAL which task a network is predicted for: --model.task_embeddings in training,
    --task_embeddings in `lgx init`. For a task of your own, a folder with a few unlabeled images is enough.

    Args:
        ancestor: Learngene file, folder, checkpoint of a run, or timm model name; for texts a GPT-2, also by its name
            on the Hugging Face hub (gpt2:openai-community/gpt2).
        data: Data sets by name, separated by commas (cifar100,dtd; `lgx data list` shows all), or folders: with
            train/<class>/<image>, or with bare images. A folder's own name is then the task's.
        out: File to write.
        root: Folder below which data sets lie.
        img_size: Height and width of the images in pixels; by default the ancestor's.
        in_chans: 1 (grey) or 3 (RGB) channels; by default the ancestor's.
        tokenizer: Of texts: folder with GPT-2's encoder.json and vocab.bpe, or a name on the Hugging Face hub; by
            default ROOT/gpt2_vocab.
        max_len: Of texts: longest text in tokens, longer ones are cut; at most the ancestor's.
        source: Of texts: files below ROOT, or the Hugging Face hub.
        limit: Use only so many examples of each task, drawn class by class with a fixed seed.
        batch_size: Examples per process and pass.
        num_workers: Loader processes.
        devices: Processes, each with a GPU of its own where there are GPUs.
        accelerator: auto, cpu or gpu.
    """
    import torch
    from lightning.fabric import Fabric
    from rich.progress import track
    from torch.utils.data import DataLoader

    from data_modules.samplers import UnpaddedEvalSampler
    from lgx.architectures import GPT2Architecture, ViTArchitecture
    from lgx.artifacts.pretrained import load_pretrained
    from lgx.artifacts.task_embeddings import TaskEmbeddings, sum_features
    from lgx.components.teacher import Teacher
    from lgx.core.warnings import quiet
    from lgx.errors import UserError

    quiet()
    for option, value in (("limit", limit), ("img_size", img_size), ("batch_size", batch_size), ("devices", devices)):
        if value is not None and value < 1:
            raise UserError(f"--{option}: expected at least 1, got {value}")
    names = [name.strip() for name in data.split(",") if name.strip()]
    if not names:
        raise UserError("--data: name at least one data set or folder")
    architecture = load_pretrained(ancestor).architecture
    is_text = isinstance(architecture, GPT2Architecture)
    for option, given in (("img_size", img_size), ("in_chans", in_chans), ("tokenizer", tokenizer)):
        if given is not None and is_text != (option == "tokenizer"):
            what = "reads texts" if is_text else "reads images"
            raise UserError(f"--{option}: ancestor {ancestor} {what}; leave it out")
    fabric = Fabric(accelerator=accelerator, devices=devices)
    fabric.launch()
    found = TaskEmbeddings({}, ancestor)
    for name in names:
        examples: Any
        if isinstance(architecture, GPT2Architecture):
            options = {"tokenizer": tokenizer, "source": source, "limit_train": limit}
            options |= {"vocab_size": architecture.vocab_size, "max_len": min(max_len, architecture.max_len)}
            task, examples, collate = _training_texts(name, root, options)
            described = True
        else:
            vit = architecture if isinstance(architecture, ViTArchitecture) else None
            task, examples, described = _training_images(name, root, vit, img_size, in_chans, limit)
            collate = _stack
        if task.name in found.tensors:
            raise UserError(f"--data: two tasks are called {task.name}; embed them into two files")
        loader: DataLoader[Any] = DataLoader(
            examples, batch_size, num_workers=num_workers, collate_fn=collate,
            sampler=UnpaddedEvalSampler(len(examples), fabric.global_rank, fabric.world_size),
        )  # fmt: skip
        teacher = Teacher.load(ancestor, task, features_only=True)
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
            print(f"embedded  {name}: {count:,} {'texts' if is_text else 'images'}")
        print(f"written   {out}: {len(found.tensors)} embeddings of {found.width} numbers by {ancestor}")


def _training_images(
    name: str,
    root: str,
    ancestor: "ViTArchitecture | None",
    img_size: int | None,
    in_chans: int | None,
    limit: int | None,
) -> tuple["Task", "TransformedImages", bool]:
    """The task, its training images, and whether more is known of it than bare images."""
    from pathlib import Path

    import numpy as np

    from data_modules.catalogue import open_set
    from data_modules.images import IMAGE_SUFFIXES, ImageFiles, LabeledImages
    from data_modules.samplers import TransformedImages
    from data_modules.splits import stratified_order
    from data_modules.transforms import eval_transform
    from lgx.architectures import ViTArchitecture
    from lgx.core.batch import Task

    own = ancestor or ViTArchitecture()
    size, channels = img_size or own.img_size, in_chans or own.in_chans
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
        images = LabeledImages(images, np.asarray(images.labels)[chosen], task.name, chosen)
    return task, TransformedImages(images, eval_transform(task)), not bare


def _training_texts(name: str, root: str, options: dict[str, Any]) -> tuple["Task", "Texts", Callable[[Any], Any]]:
    """The task, its training texts, the shortest first, and what puts them together."""
    import numpy as np

    from data_modules.catalogue import open_text

    module = open_text(name, root, **options)
    module.prepare_data()
    module.setup("fit")
    texts = module.examples("train")
    ordered = texts.take(np.argsort(texts.lengths, kind="stable"))  # little padding
    return module.task, ordered, lambda examples: module.collate(examples).inputs


def _stack(examples: list[tuple[Any, int]]) -> Any:
    import torch

    return torch.stack([image for image, _ in examples])
