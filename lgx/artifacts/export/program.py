"""Programs of networks: what they say of their network, traced with a dynamic batch, compared, written as ``.pt2``."""

import io
import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.core.task import Normalization, Task, image_size
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.failures import foreign_errors
from lgx.host.files import atomic_path

WRITER = "lgx export"
"""The command that writes programs; each program names it."""

_AGAIN = "write it again with `lgx export`"
_RESIZED = {
    "crop": "resized to cover img_size (bicubic), center crop",
    "squash": "resized to img_size (bicubic)",
    "letterbox": "resized to fit into img_size (bicubic), centered on the color mean * 255",
}
_PREPARATION = {
    "segmentation": "RGB or gray, values / 255, whole image resized to img_size (bilinear), - mean, / std",
    "text": "what the tokenizer of training gives for a text or a pair, at most max_len tokens, padded on the right",
}
_OUTPUTS = {
    "classification": "logits (batch, num_classes); softmax gives probabilities",
    "multilabel": "logits (batch, num_classes); sigmoid gives the probability of each label",
    "segmentation": "logits (batch, num_classes, *img_size); the largest names the class of a pixel",
    "text": "logits (batch, num_classes); softmax gives probabilities",
    "language": "logits (batch, tokens, vocab_size); softmax gives probabilities of the next token",
}

_VECTORS = "vectors (batch, width) of length 1; their products are cosine similarities"


def task_of(network: PretrainedNetwork, name: str = "", *, of_vectors: bool = False) -> Task:
    """The task of a network; for a model of timm that lgx cannot describe, from its configuration.

    Args:
        network: The network.
        name: Name of the task that it was trained on.
        of_vectors: Whether vectors are wanted, so that a head does not matter.
    """
    if of_vectors:
        headless = task_of(replace(network, has_head=True), name)
        return replace(
            headless, num_classes=0, class_names=(), kind="text" if headless.reads_text else "classification"
        )
    if not network.has_head:
        raise UserError(f"{network.name}: has no trained head, so it cannot predict; train a descendant first")
    model: Any = network.model
    architecture = network.architecture
    inputs = Normalization(network.mean, network.std)
    names = network.label_names
    about: dict[str, Any] = inputs._asdict() | network.reading._asdict()
    if architecture is None:
        size: Sequence[int] = (model.pretrained_cfg or {}).get("input_size") or (3, 224, 224)
        about |= inputs.for_channels(size[0])._asdict() | {"in_chans": size[0], "img_size": image_size(*size[1:])}
        return Task(name, model.num_classes, class_names=names, **about)
    about |= {"in_chans": 0, "img_size": 0} | {key: getattr(architecture, key) for key in architecture.input_keys}
    return Task(name, architecture.num_classes, architecture.kind, class_names=names, **about)


def to_texts(task: Task, origin: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a file: keys, and values as JSON.

    Args:
        task: Kind, classes and their names, and the size, channels and normalization of the inputs.
        origin: Origin of the network: file, run, method, task, epochs, versions.
    """
    values = asdict(task)
    scaled = "value_range to 0 and 1, or of 8 bits values / 255" if task.value_range else "values / 255"
    of_whole_images = f"RGB or gray, {scaled}, {_RESIZED[task.resize]}, - mean, / std"
    del values["metric"], values["num_train"], values["bytes_per_token"]
    about = {
        "task": values.pop("name"),
        **values,
        "preparation": _PREPARATION.get("text" if task.reads_text else task.kind, of_whole_images),
        "outputs": _OUTPUTS[task.kind] if task.is_labeled else _VECTORS,
        "origin": dict(origin),
        "lgx_version": __version__,
        "written_by": WRITER,
    }
    return {key: json.dumps(value, ensure_ascii=False) for key, value in about.items()}


def described_task(texts: Mapping[str, str], place: str) -> Task:
    """The task that a file describes, the inverse of :func:`to_texts`.

    Args:
        texts: Keys, and values as JSON; other keys are ignored.
        place: The file.
    """
    if texts.get("written_by") != json.dumps(WRITER):
        raise UserError(f"{place}: has no metadata of class names, normalization and image size; {_AGAIN}")
    keys = {field.name for field in fields(Task)} - {"name"}
    values = {key: json.loads(texts[key]) for key in keys if key in texts}
    lists = {key: tuple(values[key]) for key in ("mean", "std", "class_names", "value_range")}
    return Task("", **values | lists)


Program = Callable[[Tensor], Tensor]
"""Inputs of any batch size -> logits."""

TOLERANCE = 1e-4
"""Largest accepted difference of logits; above 1, relative to the largest logit."""

_BATCHES = (1, 3)
"""Batch sizes of the comparison; they differ from the traced batch size."""

LARGEST_BATCH = 2**16
"""Most examples of a batch of an exported program."""

TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs of exported programs of texts, in the order of the rows of :class:`~lgx.core.batch.Batch`."""

_ABOUT = "lgx.json"
"""The extra file of a ``.pt2`` file that describes the network."""


@dataclass(frozen=True)
class ExportedModel:
    """A model that is ready for use.

    Attributes:
        name: The file or folder.
        task: Kind, classes, and the size, channels and normalization of the inputs.
        program: Normalized images (B, C, H, W) or texts (B, 3, N) -> logits.
    """

    name: str
    task: Task
    program: Program

    @torch.no_grad()
    def logits(self, inputs: Tensor) -> Tensor:
        """Logits (B, K) of images (B, C, H, W) or texts (B, 3, N); of a task without classes vectors, (B, T)."""
        with foreign_errors(self.name, "the model does not run", "write it again with `lgx export`"):
            logits = self.program(inputs)
        if not logits.isfinite().all():
            raise UserError(f"{self.name}: predicts values that are not finite; write it again, or train it again")
        return logits.float()


def trace(model: nn.Module, task: Task, place: str) -> ExportedProgram:
    """Trace a network.

    Args:
        model: The network, in eval mode.
        task: What it reads.
        place: The file that will hold the program, for the message.

    Returns:
        The program, images (B, C, H, W), or the :data:`TEXT_INPUTS` of texts, (B, N) each -> logits. B is dynamic, and
        N of texts.
    """
    sizes = {0: Dim("batch", min=1, max=LARGEST_BATCH)}
    is_text = task.reads_text
    if is_text:
        sizes[1] = Dim("length", min=1, max=task.max_len)
    inputs = parts_of(random_inputs(task, 2), task)  # torch.export treats a size of 1 as a constant
    traced = _OfParts(model) if is_text else model
    with silent(), foreign_errors(place, "torch.export cannot trace this network", "export a folder"), torch.no_grad():
        # Without `strict`, masks of transformers would fix the batch size.
        return torch.export.export(traced, inputs, dynamic_shapes=(sizes,) * len(inputs), strict=is_text)


@contextmanager
def silent() -> Iterator[None]:
    """Hide deprecations and remarks of torch and onnxscript inside the block."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class _OfParts(nn.Module):
    """A network of texts whose inputs have the names and shapes that transformers gives them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        logits: Tensor = self.model(torch.stack([input_ids, attention_mask, token_type_ids], dim=1))
        return logits


def parts_of(inputs: Tensor, task: Task) -> tuple[Tensor, ...]:
    """The inputs of an exported program: the images, or the :data:`TEXT_INPUTS` of texts."""
    return inputs.unbind(1) if task.reads_text else (inputs,)


def write_pt2(out: str | Path, model: nn.Module, task: Task, texts: Mapping[str, str]) -> float:
    """Write a network as a program for ``torch.export.load``; lgx itself reads none, because a program may run code.

    Args:
        out: The file.
        model: The network, in eval mode.
        task: What it reads.
        texts: Metadata, written as the extra file ``lgx.json``.

    Returns:
        The largest difference between logits of the written program and of the network.
    """
    traced = trace(model, task, str(out))
    content = io.BytesIO()  # on a full disk torch's own writer would abort the process
    torch.export.save(traced, content, extra_files={_ABOUT: json.dumps(texts)})
    with atomic_path(out) as temporary:
        temporary.write_bytes(content.getbuffer())
        with temporary.open("rb") as file:
            written: Any = torch.export.load(file).module()
        return check_parity(model, lambda inputs: written(*parts_of(inputs, task)), task, out)


def random_inputs(task: Task, batch: int, seed: int = 0) -> Tensor:
    """Random inputs: images (B, C, H, W) with normally distributed values, or texts (B, 3, N), the shorter padded."""
    generator = torch.Generator().manual_seed(seed)
    if not task.reads_text:
        return torch.randn(batch, *task.image_shape, generator=generator)
    longest = max(1, task.max_len - batch % 2)  # not always the length of the trace
    ids = torch.randint(0, task.vocab_size - 1, (batch, longest), generator=generator)
    lengths = torch.randint(1, longest + 1, (batch, 1), generator=generator)
    lengths[0] = longest
    mask = (torch.arange(longest) < lengths).long()
    return torch.stack([ids, mask, torch.zeros_like(ids)], dim=1)


def check_parity(model: nn.Module, program: Program, task: Task, place: str | Path) -> float:
    """Refuse a program whose logits differ from the network's.

    Args:
        model: The network, in eval mode.
        program: The program, as it was read from its file.
        task: What the network reads.
        place: The file, for the message.

    Returns:
        The largest difference.
    """
    largest = 0.0
    for batch in _BATCHES:
        inputs = random_inputs(task, batch, seed=batch)
        with torch.no_grad(), foreign_errors(str(place), "the exported program does not run", "nothing was written"):
            expected = model(inputs)
            computed = program(inputs)
        difference = float((computed - expected).abs().max()) if computed.shape == expected.shape else math.inf
        if not difference <= TOLERANCE * max(1.0, float(expected.abs().max())):  # NaN is refused
            raise UserError(
                f"{place}: logits of the exported program differ by {difference:.2g} from the network's at "
                f"batch size {batch}, more than {TOLERANCE:g}; nothing was written"
            )
        largest = max(largest, difference)
    return largest
