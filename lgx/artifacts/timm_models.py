"""Load models of timm with timm's weights or with a file's, and report what does not fit.

timm resamples patches and positions, and converts the names of official files (DINOv2, DINOv3, CLIP, BEiT-3, ...).
"""

import logging
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import load_state_dict
from torch import Tensor, nn

from lgx.artifacts.safety import check_weights
from lgx.artifacts.source_names import WEIGHTS_SUFFIXES, TimmSource
from lgx.core.readable import some
from lgx.core.task import Normalization
from lgx.errors import UserError
from lgx.host.failures import blame, checkpoint_errors, timm_errors

LOCAL = "local-dir:"
"""Beginning of timm's name of a folder."""
_BESIDE = (
    "head.", "head_dist.", "fc.", "classifier.", "pre_logits.", "pooler.", "vit.pooler.", "lm_head.", "mask_token",
    "decoder", "dino_head.", "ibot_head.", "projector", "predictor", "relative_position_index",
)  # fmt: skip
"""Prefixes of parameters beside a backbone, which an import may leave out."""


def import_timm(source: TimmSource) -> tuple[nn.Module, tuple[str, ...]]:
    """Load a model of timm with its weights, resampled by timm to the sizes that the source names.

    Args:
        source: The model, the path of its weights, and its sizes.

    Returns:
        The model, in eval mode, and the names of the source's unused parameters.
    """
    model, ignored = _with_timms_weights(source) if source.weights is None else _with_file(source, source.weights)
    if source.in_chans:
        timms: Any = model
        shape = {"input_size": (source.in_chans, *timms.pretrained_cfg["input_size"][1:])}
        inputs = normalization_of(model).for_channels(source.in_chans)
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
    classes = {} if source.num_classes is None else {"num_classes": source.num_classes}
    overlay = {"state_dict": tensors, **classes}
    how = {**source.arguments(), "pretrained_cfg_overlay": overlay, "pretrained_strict": False}
    with (
        _logged() as logged,
        blame(f"{weights}: timm could not read it as {source.model}; for another number of classes give --num_classes"),
    ):
        model = timm.create_model(source.model, pretrained=True, **how).eval()
    missing, ignored = _names(logged, "Missing"), _names(logged, "Unexpected")
    _check_names(source, len(tensors), missing, ignored)
    return model, ignored


def normalization_of(model: Any) -> Normalization:
    """How the inputs of a model of timm are normalized; as ImageNet's where it does not say it."""
    config = model.pretrained_cfg or {}
    return Normalization(
        tuple(config.get("mean") or IMAGENET_DEFAULT_MEAN), tuple(config.get("std") or IMAGENET_DEFAULT_STD)
    )


def read_weights(file: str) -> dict[str, Tensor]:
    """Read the weights of one network, as timm reads them: of a checkpoint the averaged weights are preferred.

    Args:
        file: A safetensors file, or a file of ``torch.save``: a state dict, or a checkpoint with one.

    Returns:
        Tensors by name; the prefixes of DDP and ``torch.compile`` are removed.
    """
    path = Path(file)
    if path.suffix not in WEIGHTS_SUFFIXES:
        raise UserError(f"{path}: unknown kind of file; expected a name that ends in {', '.join(WEIGHTS_SUFFIXES)}")
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    # Programs store their options beside the weights as a Namespace.
    with checkpoint_errors(path), torch.serialization.safe_globals([Namespace]):
        tensors: dict[str, Tensor] = load_state_dict(file)
    check_weights(tensors, file)
    return tensors


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
        name: A model that timm knows, or ``local-dir:…``.
        arguments: Those of ``timm.create_model``.
    """
    if not _reads_weights.get() and timm.is_model(name.partition(".")[0]):
        return timm.create_model(name, **arguments).eval()
    with timm_errors(name):
        model: nn.Module = timm.create_model(name, pretrained=True, **arguments)
    check_weights(model.state_dict(), name)
    return model.eval()


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
