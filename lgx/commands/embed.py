"""``lgx embed``: embeddings of tasks, the input of a task-aware hypernetwork."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from data_modules.images import Images
    from lgx.architectures import Architecture
    from lgx.artifacts.task_embeddings import TaskEmbeddings
    from lgx.core.task import Task


def embed(
    *,
    ancestor: str,
    data: str,
    out: str = "task_embeddings.safetensors",
    root: str = "data",
    img_size: int | None = None,
    in_chans: Literal[1, 3] | None = None,
    tokenizer: str | None = None,
    max_len: int = 128,
    source: Literal["files", "hub"] = "files",
    limit: int | None = None,
    batch_size: int = 128,
    num_workers: int = 0,
    worker_timeout: int = 60,
    devices: int = 1,
    accelerator: str = "auto",
    force: bool = False,
) -> None:
    """Embed tasks: the mean class-token feature of an ancestor over a task's training images (TAL, Sec. 4).

    For texts the ancestor is a GPT-2; the feature of a text is the mean of its tokens after the last norm.

    TAL reads the file that this command writes: --model.task_embeddings in training, --task_embeddings in `lgx init`.
    For a task of your own, a folder with a few unlabeled images is enough.

    Example: lgx embed --ancestor vit_base_patch16_224 --data cifar100,dtd

    Args:
        ancestor: Learngene file, folder, checkpoint of a run, or timm model name; for texts a GPT-2, also by its name
            on the Hugging Face hub (gpt2:openai-community/gpt2).
        data: Data sets by name, separated by commas (cifar100,dtd; `lgx data list` shows all), or folders: with
            train/<class>/<image>, or with images only. The task is then called like the folder.
        out: File to write.
        root: Folder that contains the data sets.
        img_size: Height and width of the images in pixels; by default the ancestor's.
        in_chans: 1 (gray) or 3 (RGB) channels; by default the ancestor's.
        tokenizer: For texts: folder with GPT-2's encoder.json and vocab.bpe, or a name on the Hugging Face hub; by
            default ROOT/gpt2_vocab.
        max_len: For texts: longest text in tokens, longer ones are cut; at most the ancestor's.
        source: For texts: files below ROOT, or the Hugging Face hub.
        limit: Use only so many examples of each task, drawn class by class with a fixed seed.
        batch_size: Examples per process and pass.
        num_workers: Loader processes.
        worker_timeout: Seconds to wait for a batch of the loader processes before the command ends; 0 waits for ever.
        devices: Processes, each with a GPU of its own where there are GPUs.
        accelerator: auto, cpu or gpu.
        force: Replace what another command or program wrote; what this command reads is never replaced.
    """
    from lgx.core.warnings import silence_known_warnings

    silence_known_warnings()
    _check_loading(num_workers, worker_timeout)
    _check_least(1, limit=limit, img_size=img_size, batch_size=batch_size, devices=devices)
    names = _names(data)
    _check_place(out, force, ancestor, tokenizer, *names)
    reader = _Reader(ancestor, root, img_size, in_chans, tokenizer, max_len, source, limit)
    reader.check()
    found = _embed_all(reader, names, batch_size, num_workers, worker_timeout, devices, accelerator)
    _save(found, out, "texts" if reader.reads_texts else "images")


@dataclass(frozen=True)
class _Examples:
    """The training examples of a task.

    Attributes:
        task: The task.
        examples: Map-style data set of tensors.
        collate: Makes the inputs of a batch, a tensor, of several examples.
        is_described: Whether the task is known by more than images without classes.
    """

    task: "Task"
    examples: Any
    collate: Callable[[list[Any]], Any]
    is_described: bool = True


class _Reader:
    """Finds the training examples of tasks in the form that an ancestor reads. For the arguments see :func:`embed`."""

    def __init__(
        self,
        ancestor: str,
        root: str,
        img_size: int | None,
        in_chans: Literal[1, 3] | None,
        tokenizer: str | None,
        max_len: int,
        source: Literal["files", "hub"],
        limit: int | None,
    ) -> None:
        from lgx.architectures import GPT2Architecture
        from lgx.artifacts.pretrained import load_pretrained
        from lgx.artifacts.timm_source import pinned_source

        self.ancestor, self.root, self.limit = pinned_source(ancestor), root, limit
        self.img_size, self.in_chans = img_size, in_chans
        self.tokenizer, self.max_len, self.source = tokenizer, max_len, source
        self.architecture: Architecture | None = load_pretrained(self.ancestor).architecture
        self.reads_texts = isinstance(self.architecture, GPT2Architecture)

    def check(self) -> None:
        """Refuse options of images for an ancestor of texts, and the other way round.

        Raises:
            UserError: If there is one.
        """
        from lgx.errors import UserError

        of_texts, of_images = {"tokenizer": self.tokenizer}, {"img_size": self.img_size, "in_chans": self.in_chans}
        for option, value in (of_images if self.reads_texts else of_texts).items():
            if value is not None:
                kind = "texts" if self.reads_texts else "images"
                raise UserError(f"--{option}: ancestor {self.ancestor} reads {kind}; leave it out")

    def read(self, name: str) -> _Examples:
        """The training examples of the task called ``name``.

        Raises:
            UserError: If there is no such set, or its files are absent.
        """
        return self._texts(name) if self.reads_texts else self._images(name)

    def _texts(self, name: str) -> _Examples:
        import numpy as np

        from data_modules.catalog import open_text
        from lgx.architectures import GPT2Architecture

        assert isinstance(self.architecture, GPT2Architecture)
        module = open_text(name, self.root)
        module.tokenizer, module.source, module.limit_train = self.tokenizer, self.source, self.limit
        module.vocab_size = self.architecture.vocab_size
        module.max_len = min(self.max_len, self.architecture.max_len)
        module.check_options()
        module.prepare_data()
        module.setup("fit")
        texts = module.examples("train")
        ordered = texts.take(np.argsort(texts.lengths, kind="stable"))  # little padding
        return _Examples(module.task, ordered, lambda examples: module.collate(examples).inputs)

    def _images(self, name: str) -> _Examples:
        from data_modules.samplers import TransformedExamples
        from lgx.core.eval_transforms import eval_transform

        task, images, is_described = self._unlabeled(name) or self._labeled(name)
        if self.limit is not None:
            images = _first(images, self.limit, task.name)
        return _Examples(task, TransformedExamples(images, eval_transform(task)), _stack, is_described)

    def _unlabeled(self, name: str) -> tuple["Task", "Images", bool] | None:
        """A folder of images without classes."""
        from pathlib import Path

        from data_modules.class_trees import read_flat
        from lgx.core.task import Task

        folder = Path(name)
        own_name = folder.resolve().name
        images = read_flat(folder, own_name) if folder.is_dir() else None
        if images is None:
            return None
        size, channels = self._form()
        half = (0.5,) * channels
        task = Task(own_name, 0, num_train=len(images), in_chans=channels, img_size=size, mean=half, std=half)
        return task, images, False

    def _labeled(self, name: str) -> tuple["Task", "Images", bool]:
        from data_modules.catalog import open_set

        module = open_set(name, self.root)
        module.img_size, module.in_chans = self._form()
        module.prepare_data()
        module.setup("fit")
        return module.task, module.read("train"), True

    def _form(self) -> tuple[int, Literal[1, 3]]:
        """Size in pixels and channels of the images."""
        from lgx.architectures import ViTArchitecture

        own = self.architecture if isinstance(self.architecture, ViTArchitecture) else ViTArchitecture()
        return self.img_size or own.img_size, self.in_chans or (1 if own.in_chans == 1 else 3)


def _embed_all(
    reader: _Reader,
    names: list[str],
    batch_size: int,
    num_workers: int,
    worker_timeout: int,
    devices: int,
    accelerator: str,
) -> "TaskEmbeddings | None":
    """Embed each task on all processes; None on all of them but the first."""
    import torch
    from lightning.fabric import Fabric
    from rich.progress import track
    from torch.utils.data import DataLoader

    from data_modules.loading import loader_options
    from data_modules.samplers import UnpaddedEvalSampler
    from lgx.artifacts.task_embeddings import TaskEmbeddings
    from lgx.components.task_features import sum_features
    from lgx.components.teacher import Teacher
    from lgx.errors import UserError

    fabric = Fabric(accelerator=accelerator, devices=devices)
    fabric.launch()
    found = TaskEmbeddings({}, reader.ancestor)
    for name in names:
        read = reader.read(name)
        task = read.task
        if task.name in found.tensors:
            raise UserError(f"--data: two tasks are called {task.name}; embed them into two files")
        sampler = UnpaddedEvalSampler(len(read.examples), fabric.global_rank, fabric.world_size)
        options = loader_options(num_workers, read.collate, [task], batch_size, worker_timeout, "--", devices)
        loader: DataLoader[Any] = DataLoader(read.examples, batch_size, sampler=sampler, **options)
        teacher = Teacher.load(reader.ancestor, task, features_only=True)
        shown = track(loader, f"embedding {task.name}", transient=True, disable=fabric.global_rank > 0)
        total, count = sum_features(teacher, (batch.to(fabric.device) for batch in shown))
        summed: Any = fabric.all_reduce(torch.cat([total, total.new_tensor([count])]), reduce_op="sum")
        found.tensors[task.name] = (summed[:-1] / summed[-1]).float()
        found.images[task.name] = int(summed[-1])
        if read.is_described:
            found.tasks[task.name] = task.to_dict()
    return found if fabric.global_rank == 0 else None


def _save(found: "TaskEmbeddings | None", out: str, examples: str) -> None:
    if found is None:
        return
    found.save(out)
    for name, count in found.images.items():
        print(f"embedded  {name}: {count:,} {examples}")
    print(f"written   {out}: {len(found.tensors)} embeddings of {found.width} numbers by {found.ancestor}")


def _names(data: str) -> list[str]:
    from lgx.errors import UserError

    names = [name.strip() for name in data.split(",") if name.strip()]
    if not names:
        raise UserError("--data: name at least one data set or folder")
    return names


def _check_place(out: str, force: bool, *reads: str | None) -> None:
    from lgx.artifacts.task_embeddings import holds_task_embeddings
    from lgx.core.outputs import check_file

    check_file(out, "lgx embed", holds_task_embeddings, force=force, reads=reads)


def _check_loading(num_workers: int, worker_timeout: int) -> None:
    from data_modules.loading import check_workers

    check_workers(num_workers, "--num_workers")
    _check_least(0, worker_timeout=worker_timeout)


def _check_least(least: int, **options: int | None) -> None:
    from lgx.errors import UserError

    for option, value in options.items():
        if value is not None and value < least:
            raise UserError(f"--{option}: expected at least {least}, got {value}")


def _first(images: "Images", count: int, where: str) -> "Images":
    """The first examples of a class-stratified draw with a fixed seed."""
    import numpy as np

    from data_modules.images import LabeledImages
    from data_modules.splits import stratified_order

    chosen = stratified_order(images.labels, seed=0)[:count]
    return LabeledImages(images, np.asarray(images.labels)[chosen], where, chosen)


def _stack(examples: list[tuple[Any, int]]) -> Any:
    import torch

    return torch.stack([image for image, _ in examples])
