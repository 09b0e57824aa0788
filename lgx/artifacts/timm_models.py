"""Load models of timm with timm's weights or with a file's, and report what does not fit.

timm resamples patches and positions, and converts the names of official files (DINOv2, DINOv3, CLIP, BEiT-3, ...).
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import clean_state_dict
from torch import Tensor, nn

from lgx.architectures.building import building_on
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.safetensors_files import read_safetensors
from lgx.artifacts.safety import AGAIN, TASK, check_weights, is_number_tensor
from lgx.artifacts.source_names import FOLDER, SAFETENSORS, WEIGHTS_SUFFIXES, TimmSource
from lgx.core.readable import some
from lgx.core.schema import LINE, check_fields
from lgx.core.task import Normalization, image_size, size_text
from lgx.errors import UserError
from lgx.host.failures import is_full_memory, reason_of, timm_errors
from lgx.host.hub import hub_or_cache
from lgx.host.safety import read_json

_STATES = ("state_dict_ema", "model_ema", "state_dict", "model", "module", "teacher")
"""Keys under which programs store a network's weights; averaged weights come first, as in timm."""
_BESIDE = (
    "head.", "head_dist.", "fc.", "classifier.", "pre_logits.", "pooler.", "vit.pooler.", "lm_head.", "mask_token",
    "decoder", "dino_head.", "ibot_head.", "projector", "predictor", "relative_position_index",
)  # fmt: skip
"""Prefixes of parameters beside a backbone, which an import may leave out."""
_MISMATCH = re.compile(
    r"size mismatch for (\S+): copying a param with shape torch\.Size\((\[.*?\])\) from checkpoint, "
    r"the shape in current model is torch\.Size\((\[.*?\])\)"
)
_INPUTS = ("mean", "std")
_BESIDE_WEIGHTS = {"config.json": _INPUTS, "preprocessor_config.json": ("image_mean", "image_std")}
"""Files of timm and of transformers that describe the weights beside them, and their keys of mean and std."""


def import_timm(source: TimmSource) -> tuple[nn.Module, tuple[str, ...]]:
    """Load a model of timm with its weights, resampled by timm to the sizes that the source names.

    Args:
        source: The model, the path of its weights, and its sizes.

    Returns:
        The model, in eval mode, and the names of the source's unused parameters.
    """
    _check_sizes(source)
    model, ignored = _with_timms_weights(source) if source.weights is None else _with_file(source, source.weights)
    timms: Any = model
    inputs = stated_normalization(source)[0]
    shape = {}
    if source.in_chans:
        inputs = inputs.for_channels(source.in_chans)
        shape = {"input_size": (source.in_chans, *timms.pretrained_cfg["input_size"][1:])}
    timms.pretrained_cfg = {**timms.pretrained_cfg, **shape, **inputs._asdict()}
    return model, ignored


def _with_timms_weights(source: TimmSource) -> tuple[nn.Module, tuple[str, ...]]:
    classes = getattr(timm.get_pretrained_cfg(source.model), "num_classes", None)
    if source.num_classes not in (None, 0, classes):
        raise UserError(
            f"{source.name}: timm's weights have {classes} classes; leave out num_classes, or give 0 for no head"
        )
    with _logged():
        return load_timm(source.model, **source.arguments()), ()


def _with_file(source: TimmSource, weights: str) -> tuple[nn.Module, tuple[str, ...]]:
    tensors = read_weights(weights)
    tensors = _without_prefix(source, tensors)
    check_weights(tensors, weights)
    return _loaded(source, tensors)


def stated_normalization(source: TimmSource) -> tuple[Normalization, str]:
    """The mean and std of a model's images, and why it has them, in words.

    What the configuration beside the weights says counts before what timm says of the model.
    """
    default: Any = timm.get_pretrained_cfg(source.model)
    of_timm = Normalization(tuple(default.mean), tuple(default.std))
    if source.weights is None:
        return of_timm, f"timm's values of {source.model}"
    for place, values in _stated(Path(source.weights)):
        if values.keys() >= {*_INPUTS}:
            values = check_fields({key: values[key] for key in _INPUTS}, {key: TASK[key] for key in _INPUTS}, place)
            return Normalization(*(tuple(values[key]) for key in _INPUTS)), f"as {place} says"
    return of_timm, f"timm's values of {source.model}; none are beside the weights"


def _stated(weights: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Mean and std in configurations beside a file of weights, each with its place."""
    for name, keys in _BESIDE_WEIGHTS.items():
        values = read_json(file, AGAIN) if (file := weights.parent / name).is_file() else {}
        values = values.get("pretrained_cfg", values) if isinstance(values, dict) else {}
        held = values if isinstance(values, dict) else {}
        yield str(file), {key: held[theirs] for key, theirs in zip(_INPUTS, keys, strict=True) if theirs in held}


def _without_prefix(source: TimmSource, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights without the prefix of a larger network, such as ``backbone.``; a line reports it."""
    with building_on("meta"), timm_errors(source.name):
        names = source.build().state_dict().keys()
    parts = [name.split(".") for name in tensors]
    prefixes = {f"{'.'.join(words[:depth])}." for words in parts for depth in (1, 2, 3) if len(words) > depth}
    common = max(("", *sorted(prefixes)), key=lambda prefix: sum(f"{prefix}{name}" in tensors for name in names))
    if common:
        print(f"read       {source.weights}: the tensors below {common}")
    inner = {name.removeprefix(common): tensor for name, tensor in tensors.items() if name.startswith(common)}
    others = {name: tensor for name, tensor in tensors.items() if not name.startswith(common)}
    if others and names <= inner.keys():
        print(f"ignored    {len(others)} tensors elsewhere, such as {next(iter(others))}")
        return inner
    return others | inner


def normalization_of(model: Any) -> Normalization:
    """How the inputs of a model of timm are normalized; as ImageNet's where it does not say it."""
    config = model.pretrained_cfg or {}
    return Normalization(
        tuple(config.get("mean") or IMAGENET_DEFAULT_MEAN), tuple(config.get("std") or IMAGENET_DEFAULT_STD)
    )


def read_weights(file: str) -> dict[str, Tensor]:
    """Read the weights of one network.

    Args:
        file: A safetensors file, or a file of ``torch.save``: a state dict, or a checkpoint with one. Averaged weights
            are preferred.

    Returns:
        Tensors by name; the prefixes of DDP and ``torch.compile`` are removed.
    """
    path = Path(file)
    if path.suffix not in WEIGHTS_SUFFIXES:
        raise UserError(f"{path}: unknown kind of file; expected a name that ends in {', '.join(WEIGHTS_SUFFIXES)}")
    is_safe = path.suffix == SAFETENSORS
    values: Mapping[str, Any] = (
        read_safetensors(path)[0] if is_safe else _state(load_checkpoint(path, skips_others=True))
    )
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    if not tensors:
        held = ", ".join(str(key)[:30] for key in list(values)[:5]) or "nothing"
        raise UserError(f"{path}: holds no tensors by name but {held}; give a file with a network's state dict")
    cleaned: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not LINE.holds(name) or not is_number_tensor(tensor):
            raise UserError(f"{path}: {str(name)[:100]!r} is no ordinary tensor; save the network's state dict again")
        (short,) = clean_state_dict({name: tensor})
        first = cleaned.setdefault(short, tensor)
        if first is not tensor and not torch.equal(first, tensor):
            raise UserError(f"{path}: holds {short} twice, once behind a prefix; give the state dict of one network")
    return cleaned


def _state(checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state dict within a checkpoint."""
    for _ in range(3):  # BEiT stores `module` below `model`
        keys = [key for key in _STATES if isinstance(checkpoint.get(key), dict) and checkpoint[key]]
        if not keys:
            break
        if keys[1:]:
            print(f"read       the weights in {keys[0]}, not those in {' or '.join(keys[1:])}")
        checkpoint = checkpoint[keys[0]]
    return checkpoint


_reads_weights: ContextVar[bool] = ContextVar("_reads_weights", default=True)


@contextmanager
def without_weights() -> Iterator[None]:
    """In the block, models that timm knows by name have random weights, and nothing is downloaded for them."""
    token = _reads_weights.set(False)
    try:
        yield
    finally:
        _reads_weights.reset(token)


def load_timm(name: str, **arguments: Any) -> nn.Module:
    """A model, in eval mode, with the weights that timm downloads, or finds in a folder or in the hub's cache.

    Args:
        name: A model that timm knows, or ``hf-hub:…`` or ``local-dir:…``.
        arguments: Those of ``timm.create_model``.
    """
    base = name.removeprefix("hf-hub:").rpartition("/")[2]
    if not _reads_weights.get() and timm.is_model(name.partition(".")[0]):
        return timm.create_model(name, **arguments).eval()
    remedy = f"`lgx import {base} --weights FILE --out FOLDER` reads a file of weights"
    with timm_errors(name), nullcontext() if name.startswith(FOLDER) else hub_or_cache(name, remedy):
        model: nn.Module = timm.create_model(name, pretrained=True, **arguments)
    check_weights(model.state_dict(), name)
    return model.eval()


def _check_sizes(source: TimmSource) -> None:
    """Refuse an image size that the patch size does not divide, and sizes that the model does not accept."""
    if not source.arguments():
        return
    with building_on("meta"), timm_errors(source.name):
        patches: Any = getattr(source.build(), "patch_embed", None)
    size, patch = (getattr(patches, name, None) or (1, 1) for name in ("img_size", "patch_size"))
    if size[0] % patch[0] or size[1] % patch[1]:
        in_words = size_text(image_size(*size))
        raise UserError(f"{source.name}: img_size {in_words} is not a multiple of patch_size {patch[0]}")


def _loaded(source: TimmSource, tensors: dict[str, Tensor]) -> tuple[nn.Module, tuple[str, ...]]:
    classes = {} if source.num_classes is None else {"num_classes": source.num_classes}
    overlay = {"state_dict": dict(tensors), **classes}
    with _logged() as logged:
        try:
            how = {**source.arguments(), "pretrained_cfg_overlay": overlay, "pretrained_strict": False}
            model = timm.create_model(source.model, pretrained=True, **how).eval()
        except Exception as error:
            if is_full_memory(error):
                raise
            raise _explained(source, error) from error
    missing, ignored = _names(logged, "Missing"), _names(logged, "Unexpected")
    _check_names(source, len(tensors), missing, ignored)
    return model, ignored


def _explained(source: TimmSource, error: Exception) -> UserError:
    """The message for weights of other shapes, or weights that timm cannot convert."""
    place, name = source.weights, source.model
    different = _MISMATCH.findall(str(error))
    if not different:
        return UserError(f"{place}: timm could not read it as {name} ({reason_of(error)}); give weights of that model")
    key, theirs, ours = next((each for each in different if not each[0].startswith(_heads(name))), different[0])
    if not key.startswith(_heads(name)):
        return UserError(f"{place}: {key} has shape {theirs}, but {name} needs {ours}; give weights of {name}")
    classes, heads = (shape.strip("[]").split(",")[0] for shape in (theirs, ours))
    return UserError(
        f"{place}: its head has {classes} classes, but {name} has {heads}; give --num_classes {classes} to keep "
        f"it, or 0 to import without a head"
    )


def _check_names(source: TimmSource, held: int, missing: Sequence[str], ignored: Sequence[str]) -> None:
    """Refuse weights that do not belong to the model; parameters beside the backbone may be left out."""
    place, name = source.weights, source.model
    heads = _heads(name)
    if missing and all(key.startswith(heads) for key in missing):
        raise UserError(f"{place}: has no head, but {name} has one; give --num_classes 0")
    foreign = [key for key in ignored if not key.startswith((*_BESIDE, *heads))]
    if missing or foreign:
        raise UserError(
            f"{place}: {len(foreign)} of its {held} tensors are unknown to {name} ({some(foreign)}), and "
            f"{len(missing)} tensors of {name} are missing ({some(missing)}); give the whole weights of {name}"
        )


def _heads(name: str) -> tuple[str, ...]:
    config = timm.get_pretrained_cfg(name)
    classifier = (config.classifier if config else None) or "head"
    return tuple(f"{head}." for head in ((classifier,) if isinstance(classifier, str) else classifier))


@contextmanager
def _logged() -> Iterator[list[logging.LogRecord]]:
    """Collect what timm says about weights, instead of printing it."""
    handler = BufferingHandler(10**6)
    logger = logging.getLogger("timm")
    before = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield handler.buffer
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def _names(logged: list[logging.LogRecord], kind: str) -> tuple[str, ...]:
    matches = (re.match(rf"{kind} keys \((.*)\) (?:discovered|found)", record.getMessage()) for record in logged)
    return tuple(name for match in matches if match for name in match[1].split(", "))
