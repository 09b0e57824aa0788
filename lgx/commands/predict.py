"""``lgx predict FILES --model EXPORTED``: classify images or texts without a configuration and without Lightning.

``lgx predict --config ...`` predicts the test split of a data set instead; it is one of the training commands.
"""

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse.typing import PositiveInt

from lgx.commands.run import SizeOptions
from lgx.core.readable import in_cells
from lgx.errors import UserError
from lgx.host.files import atomic_path, check_output

if TYPE_CHECKING:
    from torch import Tensor

    from lgx.artifacts.export.program import ExportedModel
    from lgx.core.task import Task
    from lgx.initialization.sizing import Budget

    Answers = tuple[Sequence[object], Tensor]
    """Names of a batch of images, or numbers of texts, and their logits (B, K) or vectors (B, T)."""

_OF_TRAINING = ("--config", "-c", "--ckpt_path", "--ckpt-path", "--data", "--print_config")
_THREADS = 4
"""Threads that decode images."""

INCOMPLETE = 3
"""Exit code if some files could not be decoded."""


def is_for_exported(argv: Sequence[str]) -> bool:
    """Whether a command line predicts image files with an exported model, not the test split of a data set.

    Args:
        argv: What follows ``lgx predict``.
    """
    options = [word.partition("=")[0] for word in argv if word.startswith("-")]
    return bool(argv) and not any(option in _OF_TRAINING or "." in option for option in options)


def predict(
    images: list[str],
    *,
    model: str,
    out: str,
    size: SizeOptions,
    batch_size: PositiveInt = 32,
    text: str = "text",
    tokenizer: str | None = None,
    force: bool = False,
) -> None:
    """Predict the classes of image files or of texts with a trained model as CSV, or write their vectors as .npy.

    Images are scaled, resized and normalized as in the model's evaluation. The columns are file, class (index), name
    and probability. A column true_name follows if folders have names of classes. A model with several labels per image
    has the columns file and one probability per label. Texts are the rows of .csv, .tsv, .jsonl or .parquet files,
    or the lines of .txt files; the first column is then the row. An --out that ends in .npy gets normalized vectors, in
    the space of the ancestor if a map into it is stored: a row for each text or image, images in the order of their
    names. `lgx predict --config FILE` predicts the test split of a data set instead; add --help for its options.

    Example: lgx predict my_images --model small.onnx --out predictions.csv

    Args:
        images: Image files, or folders, which are searched at any depth; files with texts.
        model: Model folder or .onnx file of `lgx export`, folder of a run, or checkpoint.
        size: The network of a family.
        out: CSV file, or .npy for vectors. Images are named relative to their folder, single files as you typed them.
        batch_size: Images or texts per batch.
        text: Column with the texts; of pairs the two columns, separated by a comma.
        tokenizer: Folder or name of the tokenizer; by default that of the model folder or run.
        force: Replace a file that another command or program wrote.

    Raises:
        SystemExit: With status 3 if some images could not be decoded; the file then contains all other images.
    """
    of_vectors = out.endswith(".npy")
    exported = _opened(model, size.arch, size.budgets(), of_vectors)
    _check_model(exported, of_vectors)
    check_output(out, "lgx predict", lambda file: _is_table(file, exported.task), force=force, reads=(*images, model))
    unread: list[tuple[str, str]] = []
    true: dict[str, str] = {}
    files: Mapping[str, Path] = {}
    answers: Iterator[Answers]
    if exported.task.reads_text:
        from lgx.commands.predict_texts import answered

        answers = answered(images, exported, model, tokenizer, text.split(","), batch_size)
    else:
        files = _image_files(images)
        classes = exported.task.class_names if exported.task.kind == "classification" else ()
        true = _true_classes(files, set(classes))
        answers = _of_images(dict(sorted(files.items())) if of_vectors else files, exported, batch_size, unread)
    count = (
        _write_vectors(Path(out), answers, unread) if of_vectors else _write(Path(out), answers, exported.task, true)
    )
    print(f"predicted {out}: {count}")
    if unread:
        _say_unread(unread, len(files))
        raise SystemExit(INCOMPLETE)


def _say_unread(unread: Sequence[tuple[str, str]], count: int) -> None:
    """Name the files that could not be decoded, of ``count`` files."""
    for name, reason in unread:
        print(f"unread    {name}: {reason}", file=sys.stderr)
    print(f"unread    {len(unread)} of {count} files could not be decoded", file=sys.stderr)


def _write(out: Path, answers: "Iterator[Answers]", task: "Task", true: Mapping[str, str]) -> str:
    """Write the predictions as a table, and return how many there are; ``true``: the known classes by name."""
    from lgx.core.predictions import prediction_cells

    count = correct = labeled = 0
    # A file name that is not valid UTF-8 is written byte for byte.
    with (
        atomic_path(out) as temporary,
        temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(in_cells(_header(task, bool(true))))
        for names, logits in answers:
            cells = prediction_cells(logits, task.class_names, task.kind == "multilabel")
            for name, row in zip(names, cells, strict=True):
                writer.writerow(in_cells([name, *row, *([true.get(str(name), "")] if true else [])]))
                labeled += name in true
                correct += name in true and row[1] == true[str(name)]
            count += len(names)
    if labeled:
        print(f"accuracy  {correct / labeled:.1%} of {labeled} images in folders with the name of a class")
    return f"{count:,} texts" if task.reads_text else f"{count} images"


def _write_vectors(out: Path, answers: "Iterator[Answers]", unread: Sequence[tuple[str, str]]) -> str:
    """Write the vectors of all batches, (B, T) each, float32, as one file (N, T), and return their number and width."""
    import numpy as np

    vectors = np.concatenate([batch.numpy() for _, batch in answers])
    for name, reason in unread:
        raise UserError(f"{name}: cannot be decoded ({reason}); remove it, because each row is an image")
    with atomic_path(out) as temporary, temporary.open("wb") as file:
        np.save(file, vectors)
    return f"{len(vectors):,} vectors of {vectors.shape[1]} numbers"


def _of_images(
    files: Mapping[str, Path], model: "ExportedModel", size: int, unread: list[tuple[str, str]]
) -> "Iterator[Answers]":
    """The answers to images, ``size`` at a time; ``unread`` receives names and reasons of undecodable files."""
    import torch

    from lgx.core.eval_transforms import normalized
    from lgx.core.progress import tracked

    for batch in tracked(_batches(files, model.task, size), "predicting", -(-len(files) // size)):
        read = {name: pixels for name, pixels in batch if not isinstance(pixels, str)}
        unread += [(name, pixels) for name, pixels in batch if isinstance(pixels, str)]
        if read:
            yield [*read], model.logits(normalized(torch.stack([*read.values()]), model.task))
    if len(unread) == len(files):
        raise UserError(f"{unread[0][0]}: cannot be decoded ({unread[0][1]}), like all of the {len(files)} files")


def _image_files(images: Sequence[str]) -> dict[str, Path]:
    """Name in the results -> image file, each file once."""
    from lgx.host.safety import IMAGE_SUFFIXES, list_images, skipped_files

    names: dict[Path, str] = {}
    skipped: Counter[str] = Counter()
    for image in images:
        place = Path(image)
        if not place.exists():
            raise UserError(f"{image}: no such file or folder; give images")
        paths, unread = list_images(place) if place.is_dir() else ([place], Counter())
        skipped += unread
        for path in paths:
            name = path.relative_to(place) if place.is_dir() and len(images) == 1 else path
            names.setdefault(path.absolute(), name.as_posix())
    suffixes = ", ".join(IMAGE_SUFFIXES)
    if not names:
        raise UserError(f"{', '.join(images)}: no image (looked for {suffixes})")
    if skipped:
        print(f"skipped   {skipped_files(skipped)}; {suffixes} are read")
    return {name: path for path, name in names.items()}


def _true_classes(files: Mapping[str, Path], classes: Set[str]) -> dict[str, str]:
    """Class of each image that is in a folder with the name of a class; of several folders, of the nearest."""
    folders = {name: (path.parent.name, *Path(name).parts[:-1]) for name, path in files.items()}
    return {name: folder for name, above in folders.items() for folder in above if folder in classes}  # the last counts


def _opened(model: str, arch: str | None, budgets: "Sequence[Budget]", of_vectors: bool) -> "ExportedModel":
    """The model, which gives logits or vectors; of a family, the chosen network."""
    from lgx.artifacts.export.onnx_file import run_onnx
    from lgx.artifacts.export.program import ExportedModel, described_task, task_of
    from lgx.artifacts.sources import place_in_run
    from lgx.commands.members import load_chosen

    if not Path(model).exists():
        raise UserError(f"{model}: no such file or folder; give what `lgx export` wrote")
    if model.endswith(".pt2"):
        raise UserError(
            f"{model}: a program of torch.export may run code; give the run, or export a folder or .onnx file"
        )
    if model.endswith(".onnx") and arch is None and not budgets:
        program, texts = run_onnx(model)
        return ExportedModel(model, described_task(texts, model), program)
    network, _ = load_chosen(place_in_run(model), arch, budgets)
    if of_vectors:
        from lgx.components.features import Encoder

        encoder = Encoder(network.model, network.space).eval()
        return ExportedModel(model, task_of(network, of_vectors=True), encoder)
    return ExportedModel(model, task_of(network), network.model)


def _check_model(model: "ExportedModel", of_vectors: bool) -> None:
    task = model.task
    if of_vectors and task.is_labeled:
        raise UserError(f"{model.name}: predicts classes; give the network's folder, or --out a name ending in .csv")
    if not of_vectors and not task.is_labeled:
        raise UserError(f"{model.name}: gives vectors and no classes; give --out a name ending in .npy")
    if not of_vectors and task.kind not in ("classification", "multilabel", "text"):
        raise UserError(f"{model.name}: is a model for {task.kind}, but `lgx predict` needs one for classes or labels")


def _header(task: "Task", with_true: bool = False) -> list[str]:
    """Names of the columns."""
    first = "row" if task.reads_text else "file"
    if task.kind == "multilabel":
        return [first, *(task.class_names or map(str, range(task.num_classes)))]
    return [first, "class", "name", "probability", *(["true_name"] if with_true else [])]


def _is_table(file: Path, task: "Task") -> bool:
    """Whether a file has exactly the columns of predictions."""
    with file.open(encoding="utf-8", errors="surrogateescape") as content:
        cells = next(csv.reader([content.readline(2**24)]), [])  # a foreign file may be one long line
    expected = _header(task, "true_name" in cells)
    return cells[:1] in (["file"], ["row"]) and cells[1:] == in_cells(expected[1:])


def _batches(files: Mapping[str, Path], task: "Task", size: int) -> Iterator[list[tuple[str, "Tensor | str"]]]:
    """Files with their pixels, uint8 (C, H, W), or with the reason of the failure; ``size`` images at a time."""
    from lgx.core.eval_transforms import pixel_transform
    from lgx.host.images import ImageReader
    from lgx.host.safety import error_line

    transform = pixel_transform(task)
    reader = ImageReader(task.in_chans, task.value_range)
    wrong = reader.check_values("the folder", files.values())[1]
    if wrong:
        print(f"values    {wrong}", file=sys.stderr)

    def read(path: Path) -> "Tensor | str":
        try:
            pixels: Tensor = transform(reader(path))
        except MemoryError:
            raise
        except Exception as error:
            return error_line(error)
        return pixels

    names = [*files]
    with ThreadPoolExecutor(_THREADS) as pool:
        for start in range(0, len(names), size):
            batch = names[start : start + size]
            yield [*zip(batch, pool.map(read, map(files.__getitem__, batch)), strict=True)]
