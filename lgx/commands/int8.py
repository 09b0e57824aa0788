"""``lgx export --int8``: quantize a network with the images of a set, and compare its accuracy before and after."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

from torch import nn

from data_modules.base import Split
from data_modules.catalog import open_classes
from lgx.architectures.class_order import class_order
from lgx.artifacts.export.onnx_file import run_onnx, write_int8, write_onnx
from lgx.core.batch import Batch
from lgx.core.predictions import predicted_classes
from lgx.core.progress import tracked
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.initialization.sizing import seconds_of_pass

_CALIBRATION = 256
"""Largest number of training images for the calibration of activation ranges."""


def quantize(out: str, model: nn.Module, task: Task, texts: Mapping[str, str], data: str, most_lost: float) -> None:
    """Write an ONNX file in 8 bits if its accuracy is close enough; print accuracy, size and time before and after.

    Args:
        out: The file.
        model: The network, in eval mode.
        task: What it reads and predicts.
        texts: Metadata of the file.
        data: Name of an image set, or folder with ``train/<class>/<image>``.
        most_lost: Largest accepted loss of accuracy, in points.
    """
    if task.kind != "classification" or not task.is_labeled:
        raise UserError(
            f"--int8: needs a network that predicts one class for each image; this network is for {task.kind}"
        )
    module = open_classes("--int8", data, task.img_size, task.in_chans, task.normalization, task.reading)
    names = module.task.class_names
    if module.num_classes != task.num_classes:
        raise UserError(f"--int8 {data}: has {module.num_classes} classes, but the network has {task.num_classes}")
    if class_order(task.class_names, names, f"--int8 {data}: the network") is not None:
        pairs = (f"{ours} for {other}" for ours, other in zip(names, task.class_names, strict=True) if ours != other)
        raise UserError(f"--int8 {data}: its classes have another order than the network's, e.g. {next(pairs)}")
    split: Split = "test" if module.has_test else "val"
    if split == "test":
        module.setup("test")
    size = module.evaluation_batch
    calibration = islice(
        (batch.inputs for batch in module.reference_dataloader(_CALIBRATION)), -(-_CALIBRATION // size)
    )
    with tempfile.TemporaryDirectory() as folder:
        whole, small = (Path(folder) / f"{name}.onnx" for name in ("float32", "int8"))
        write_onnx(whole, model, task, texts)
        write_int8(whole, small, calibration)
        before, after = (_accuracy(file, module.eval_dataloader(split)) for file in (whole, small))
        image = next(iter(module.eval_dataloader(split))).inputs[:1]
        times = " -> ".join(f"{1e3 * seconds_of_pass(run_onnx(file)[0], image):.2f}" for file in (whole, small))
        sizes = " -> ".join(f"{file.stat().st_size / 1e6:.2f}" for file in (whole, small))
        change = f"accuracy {before:.1f} -> {after:.1f} % of {len(module.examples(split))} {split} images of {data}"
        if before - after > most_lost:
            raise UserError(f"--int8 {data}: {change}, more than --most_lost {most_lost:g}; nothing was written")
        with atomic_path(out) as temporary:
            shutil.copyfile(small, temporary)
    print(f"int8      {change}; {sizes} MB; {times} ms for one image")


def _accuracy(file: Path, batches: Iterable[Batch]) -> float:
    """Accuracy of an ONNX file in percent."""
    program, _ = run_onnx(file)
    tested = tracked(batches, f"testing {file.stem}")
    hits = [predicted_classes(program(batch.inputs)) == batch.targets for batch in tested]
    return 100 * sum(int(part.sum()) for part in hits) / sum(map(len, hits))
