"""What an exported program says of its network, so that one file is enough to use it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.artifacts.safety import TASK
from lgx.core.image_size import image_size
from lgx.core.schema import check_fields
from lgx.core.task import Normalization, Task
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.safety import parse_json

WRITER = "lgx export"
"""The command that writes programs, which each of them names."""

_AGAIN = "write it again with `lgx export`"
_RESIZED = {
    "crop": "resized to cover img_size (bicubic), center crop",
    "squash": "resized to img_size (bicubic)",
    "letterbox": "resized to fit into img_size (bicubic), centered on the color mean * 255",
}
_PREPARATION = {
    "segmentation": "RGB or gray, values / 255, whole image resized to img_size (bilinear), - mean, / std",
    "text": "token ids of GPT-2's byte-pair encoding, padded on the right with pad_id to at most max_len",
}
_OUTPUTS = {
    "classification": "logits (batch, num_classes); softmax gives probabilities",
    "multilabel": "logits (batch, num_classes); sigmoid gives the probability of each label",
    "segmentation": "logits (batch, num_classes, *img_size); the largest names the class of a pixel",
    "text": "logits (batch, num_classes); softmax gives probabilities",
}


def task_of(network: PretrainedNetwork, name: str = "") -> Task:
    """What a network reads and predicts; a model of timm that lgx cannot describe says it in its configuration.

    Args:
        network: The network.
        name: Name of the task that it was trained on.
    """
    if not network.has_head:
        raise UserError(f"{network.name}: has no trained head, so that it predicts nothing; train a descendant first")
    model: Any = network.model
    architecture, inputs, names = network.architecture, Normalization(network.mean, network.std), network.label_names
    about: dict[str, Any] = inputs._asdict() | network.reading._asdict()
    if architecture is None:
        size: Sequence[int] = (model.pretrained_cfg or {}).get("input_size") or (3, 224, 224)
        about |= inputs.for_channels(size[0])._asdict() | {"in_chans": size[0], "img_size": image_size(*size[1:])}
        return Task(name, model.num_classes, class_names=names, **about)
    about |= {"in_chans": 0, "img_size": 0} | {key: getattr(architecture, key) for key in architecture.input_keys}
    return Task(name, architecture.num_classes, architecture.kind, class_names=names, **about)


def to_texts(task: Task, origin: Mapping[str, Any]) -> dict[str, str]:
    """What a file says of its network: keys, and values as JSON.

    Args:
        task: Kind, classes and their names, and the size, channels and normalization of the inputs.
        origin: What the network was exported from: file, run, method, task, epochs, versions.
    """
    values = asdict(task)
    scaled = "value_range to 0 and 1, or of 8 bits values / 255" if task.value_range else "values / 255"
    of_whole_images = f"RGB or gray, {scaled}, {_RESIZED[task.resize]}, - mean, / std"
    del values["metric"], values["num_train"]
    about = {
        "task": values.pop("name"),
        **values,
        "pad_id": pad_id(task),
        "preparation": _PREPARATION.get(task.kind, of_whole_images),
        "outputs": _OUTPUTS[task.kind],
        "origin": dict(origin),
        "lgx_version": __version__,
        "written_by": WRITER,
    }
    return {key: json.dumps(value, ensure_ascii=False) for key, value in about.items()}


def pad_id(task: Task) -> int:
    """The token that pads texts, which is the last one; 0 for images."""
    return max(0, task.vocab_size - 1)


def described_task(texts: Mapping[str, str], place: str) -> Task:
    """The task that a file describes, the inverse of :func:`to_texts`.

    Args:
        texts: Keys, and values as JSON; other keys are ignored.
        place: The file.
    """
    if texts.get("written_by") != json.dumps(WRITER):
        raise UserError(
            f"{place}: does not say its class names, normalization and image size, as files of `lgx export` do; "
            f"{_AGAIN}"
        )
    values = {key: parse_json(texts[key], f"{place}: {key}", _AGAIN) for key in _FIELDS if key in texts}
    values = check_fields({"value_range": [], "resize": "crop"} | values, _FIELDS, place, complete=True)
    lists = {key: tuple(values[key]) for key in ("mean", "std", "class_names", "value_range")}
    task = Task("", **values | lists)
    channels = 0 if task.kind == "text" else task.in_chans
    if not len(task.mean) == len(task.std) == channels or len(task.class_names) not in (0, task.num_classes):
        raise UserError(f"{place}: its mean, std or class names do not fit its channels and classes; {_AGAIN}")
    return task


_FIELDS = {
    key: TASK[key]
    for key in (
        "num_classes", "kind", "in_chans", "img_size", "mean", "std", "class_names", "max_len", "vocab_size",
        "value_range", "resize",
    )
}  # fmt: skip
