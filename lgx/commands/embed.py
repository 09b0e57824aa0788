"""``lgx embed``: compute embeddings of tasks, the input of a task-aware hypernetwork."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from jsonargparse.typing import NonNegativeInt, PositiveInt

from lgx.errors import UserError

if TYPE_CHECKING:
    from lgx.artifacts.pretrained import PretrainedNetwork
    from lgx.artifacts.task_embeddings import TaskEmbeddings
    from lgx.commands.task_examples import Examples


def embed(
    *,
    ancestor: str,
    data: str,
    out: str = "task_embeddings.safetensors",
    root: str = "data",
    tokenizer: str | None = None,
    max_len: PositiveInt = 128,
    source: Literal["files", "hub"] = "files",
    limit: PositiveInt | None = None,
    control: Literal["permuted", "random"] | None = None,
    batch_size: PositiveInt = 128,
    num_workers: NonNegativeInt = 0,
    force: bool = False,
) -> None:
    """Embed tasks: the mean class-token feature of an ancestor over a task's training images (TAL, Sec. 4).

    For texts, the ancestor is a network of transformers, and the feature of a text is the mean of its tokens after the
    last norm. TAL reads the file as --model.task_embeddings in training and as --task_embeddings in `lgx init`.

    Example: lgx embed --ancestor ancestor --data my_images --out task_embedding.safetensors

    Args:
        ancestor: Learngene file, folder, checkpoint of a run, or timm model name. For texts: a network of transformers,
            also by its name on the Hugging Face hub (hf://openai-community/gpt2).
        data: Names of data sets, separated by commas (cifar100,dtd; `lgx data list` shows all), or folders with
            train/<class>/<image>. The name of a folder becomes the name of its task.
        out: File to write.
        root: Folder that contains the data sets.
        tokenizer: For texts: folder with tokenizer.json or GPT-2's two files, or a name on the Hugging Face hub; by
            default ROOT/gpt2_vocab.
        max_len: For texts: tokens that are read of a text; at most the ancestor's limit.
        source: For texts: files below ROOT, or the Hugging Face hub.
        limit: Largest number of examples per task, drawn class by class with a fixed seed.
        control: Write control embeddings, which do not describe their tasks: embeddings of other tasks (permuted), or
            random numbers.
        batch_size: Examples per pass.
        num_workers: Loader processes.
        force: Replace what another command or program wrote. The command never replaces its inputs.
    """
    from lgx.commands.task_examples import images_of, texts_of

    network, names = _checked(ancestor, data, out, tokenizer, control, force)
    reads_texts = network.architecture is not None and network.architecture.reads_text
    if tokenizer is not None and not reads_texts:
        raise UserError(f"--tokenizer: ancestor {network.name} reads images; leave it out")
    if reads_texts:
        tasks = (texts_of(name, network, root, tokenizer, max_len, source, limit) for name in names)
    else:
        tasks = (images_of(name, network, root, limit) for name in names)
    embeddings = _embed_all(network, tasks, batch_size, num_workers)
    (embeddings.control(control) if control else embeddings).save(out)
    for name, count in embeddings.images.items():
        print(f"embedded  {name}: {count:,} {'texts' if reads_texts else 'images'}")
    print(
        f"written   {out}: {len(embeddings.tensors)} embeddings of {embeddings.width} numbers by {embeddings.ancestor}"
    )


def _checked(
    ancestor: str, data: str, out: str, tokenizer: str | None, control: str | None, force: bool
) -> "tuple[PretrainedNetwork, list[str]]":
    """The ancestor and the names of the data sets; ``out`` is checked before the ancestor is read."""
    from lgx.artifacts.pretrained import load_pretrained
    from lgx.artifacts.sources import resolve
    from lgx.artifacts.task_embeddings import holds_task_embeddings
    from lgx.host.files import check_output
    from lgx.host.warnings import silence_expected_warnings

    silence_expected_warnings()
    names = [name.strip() for name in data.split(",") if name.strip()]
    if len(names) < (2 if control else 1):
        raise UserError("--data: name at least one data set or folder, and two for --control")
    read = resolve(ancestor)
    check_output(out, "lgx embed", holds_task_embeddings, force=force, reads=[read.place, tokenizer, *names])
    return replace(load_pretrained(read.place), name=read.name), names


def _embed_all(
    ancestor: "PretrainedNetwork", tasks: "Iterable[Examples]", batch_size: int, num_workers: int
) -> "TaskEmbeddings":
    """Embed each task, on a GPU if there is one."""
    import torch
    from torch.utils.data import DataLoader

    from data_modules.loading.loaders import loader_options
    from lgx.artifacts.task_embeddings import TaskEmbeddings
    from lgx.components.features import sum_features
    from lgx.components.teacher import Teacher
    from lgx.core.progress import tracked

    device = "cuda" if torch.cuda.is_available() else "cpu"
    embeddings = TaskEmbeddings({}, ancestor.name)
    for task, examples, collate in tasks:
        if task.name in embeddings.tensors:
            raise UserError(f"--data: two tasks are called {task.name}; embed them into two files")
        options = loader_options(num_workers, collate)
        loader = tracked(DataLoader(examples, batch_size, **options), f"embedding {task.name}")
        teacher = Teacher.of(ancestor, task, features_only=True)
        total, count = sum_features(teacher, (batch.to(device) for batch in loader))
        embeddings.tensors[task.name] = (total / count).float()
        embeddings.images[task.name] = count
        embeddings.tasks[task.name] = task.to_dict()
    return embeddings
