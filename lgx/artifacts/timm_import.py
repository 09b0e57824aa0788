"""Load weights into models of timm, and say what did not fit.

timm resamples patches and positions, and converts the names of official files (DINOv2, DINOv3, CLIP, BEiT-3, ...).
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import timm
from torch import Tensor, nn

from lgx.architectures.meta_device import building_on
from lgx.artifacts.foreign_weights import read_weights
from lgx.artifacts.timm_hub import cached_weights
from lgx.artifacts.timm_source import TimmSource
from lgx.artifacts.transformers_names import has_transformers_names, timm_names
from lgx.errors import UserError
from lgx.host.failures import is_full_memory, reason_of, timm_errors

_BESIDE = (
    "head.", "head_dist.", "fc.", "classifier.", "pre_logits.", "pooler.", "vit.pooler.", "lm_head.", "mask_token",
    "decoder", "dino_head.", "ibot_head.", "projector", "predictor", "relative_position_index",
)  # fmt: skip
"""Beginnings of the names of parameters beside a backbone, which an import may leave out."""

_SHOWN = 4


@dataclass(frozen=True)
class Imported:
    """A model of timm with the weights of a source.

    Attributes:
        model: The model, in eval mode.
        ignored: Names of the source's parameters that the model does not have.
        held: Number of tensors in the file; None for a download.
    """

    model: nn.Module
    ignored: tuple[str, ...] = ()
    held: int | None = None


@dataclass(frozen=True)
class _Difference:
    """How weights differ from a model: what torch's strict loading reports."""

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[tuple[str, str, str], ...] = ()  # name, shape in the file, shape in the model

    @classmethod
    def of_error(cls, text: str) -> "_Difference":
        """Read torch's message."""
        missing, unexpected = (
            tuple(re.findall(r'"([^"]+)"', found[1]))
            if (found := re.search(rf"{kind} key\(s\)[^:]*: (.*)", text))
            else ()
            for kind in ("Missing", "Unexpected")
        )
        shapes = re.findall(
            r"size mismatch for (\S+): copying a param with shape torch\.Size\((\[.*?\])\) from checkpoint, "
            r"the shape in current model is torch\.Size\((\[.*?\])\)", text,
        )  # fmt: skip
        return cls(missing, unexpected, tuple(shapes))

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.mismatched)


def import_timm(source: TimmSource) -> Imported:
    """Load a model of timm with its weights, resampled to the sizes that the source names.

    Args:
        source: The model, its weights and its sizes.

    Raises:
        UserError: If the weights cannot be read or downloaded, do not belong to the model, or the sizes do not suit it.
    """
    _check_sizes(source)
    if source.weights is None:
        return Imported(_downloaded(source))
    tensors = read_weights(source.weights)
    if has_transformers_names(tensors):
        tensors = timm_names(tensors, source.weights)
    return _loaded(source, tensors)


def _check_sizes(source: TimmSource) -> None:
    """Refuse an image size that the patch size does not divide, and sizes that the model does not take."""
    if not source.arguments():
        return
    known = timm.get_pretrained_cfg(source.model)
    own = known.input_size[-1] if known is not None else 224
    with building_on("meta"):
        shape: Any = _built(source, pretrained=False, img_size=None, patch_size=None)
    patches = getattr(getattr(shape, "patch_embed", None), "patch_size", None)
    if patches is None and (source.img_size or source.patch_size):
        raise UserError(f"{source.name}: {type(shape).__name__} has no patches; leave out img_size and patch_size")
    patch, size = source.patch_size or (patches or (1,))[0], source.img_size or own
    if size % patch:
        remedy = f"choose {size // patch * patch or patch} or {(size // patch + 1) * patch}"
        raise UserError(f"{source.name}: img_size {size} is no multiple of patch_size {patch}; {remedy}")


def _built(source: TimmSource, pretrained: bool, overlay: dict[str, Any] | None = None, **others: Any) -> nn.Module:
    model: nn.Module = timm.create_model(
        source.model, pretrained=pretrained, pretrained_cfg_overlay=overlay, **{**source.arguments(), **others}
    )
    return model.eval()


def _downloaded(source: TimmSource) -> nn.Module:
    known = timm.get_pretrained_cfg(source.model)
    if source.num_classes not in (None, 0, known.num_classes if known else None):
        own = known.num_classes if known else "unknown"
        raise UserError(
            f"{source.name}: timm's weights have {own} classes; leave out num_classes, or give 0 for no head"
        )
    cached = cached_weights(source.model)
    with timm_errors(source.name), _logged():
        return _built(source, pretrained=True, overlay=None if cached is None else {"file": str(cached)})


def _loaded(source: TimmSource, tensors: dict[str, Tensor]) -> Imported:
    classes = {} if source.num_classes is None else {"num_classes": source.num_classes}
    for strict in (True, False):
        overlay = {"state_dict": dict(tensors), **classes}
        with _logged() as logged:
            try:
                model = _built(source, pretrained=True, overlay=overlay, pretrained_strict=strict)
                break
            except Exception as error:
                if is_full_memory(error):
                    raise
                difference = _Difference.of_error(str(error)) or _compared(source, tensors)
                _refuse(source, tensors, difference)
                if not _Difference.of_error(str(error)):
                    raise UserError(
                        f"{source.weights}: timm could not read it as {source.model} ({reason_of(error)}); give "
                        f"weights of that model"
                    ) from error
    missing, ignored = _names(logged, "Missing"), _names(logged, "Unexpected")
    _refuse(source, tensors, _Difference(missing))  # timm loads some models without being strict
    return Imported(model, ignored, len(tensors))


def _compared(source: TimmSource, tensors: Mapping[str, Tensor]) -> _Difference:
    """Compare the names and sizes of weights with a model's where timm failed before it did; resampled ones agree."""
    with building_on("meta"):
        own = _built(source, pretrained=False).state_dict()
    resampled = re.compile(r"(^|\.)(pos_embed|patch_embed\.proj\.weight|relative_position\w*)$")
    return _Difference(
        tuple(key for key in own if key not in tensors),
        tuple(key for key in tensors if key not in own),
        tuple(
            (key, str(list(tensor.shape)), str(list(own[key].shape)))
            for key, tensor in tensors.items()
            if key in own and tensor.shape != own[key].shape and not resampled.search(key)
        ),
    )


def _refuse(source: TimmSource, tensors: Mapping[str, Tensor], difference: _Difference) -> None:
    """Refuse weights that do not belong to the model; parameters beside the backbone may be left out.

    Raises:
        UserError: If they do not; the sentence says what differs and what would be right.
    """
    place, name = f"{source.weights}", source.model
    heads = _heads(name)
    other = [shapes for shapes in difference.mismatched if not shapes[0].startswith(heads)]
    if difference.mismatched and not other:
        theirs, ours = (shape.strip("[]").split(",")[0] for shape in difference.mismatched[0][1:])
        raise UserError(
            f"{place}: its head has {theirs} classes, but {name} has {ours}; give --num_classes {theirs} (in a source "
            f"num_classes={theirs}) to keep it, or 0 to import without a head"
        )
    if other:
        key, theirs, ours = other[0]
        turned = theirs != ours and theirs.strip("[]").split(", ") == ours.strip("[]").split(", ")[::-1]
        reason = "it is transposed, so another library wrote it" if turned else f"give weights of {name}"
        raise UserError(f"{place}: {key} has shape {theirs}, but {name} needs {ours}; {reason}")
    if apart := next((key for key in difference.unexpected if re.search(r"attn.*[._](q|q_proj|wq)\.", key)), None):
        if any("attn.qkv" in key for key in difference.missing):
            raise UserError(
                f"{place}: holds queries, keys and values apart ({apart}), but {name} stores them in one matrix, qkv; "
                f"join them in this order, as timm does"
            )
    if difference.missing and all(key.startswith(heads) for key in difference.missing):
        raise UserError(f"{place}: has no head, but {name} has one; give --num_classes 0 (in a source num_classes=0)")
    foreign = [key for key in difference.unexpected if not key.startswith((*_BESIDE, *heads))]
    if difference.missing:
        held = "none of them fits" if len(foreign) >= len(tensors) - 2 else f"it holds {len(tensors)} tensors"
        raise UserError(
            f"{place}: lacks {len(difference.missing)} parameters of {name} ({_some(difference.missing)}), and has "
            f"{len(foreign)} others ({_some(foreign) or 'none'}): {held}; give the whole weights of {name}"
        )
    if foreign:
        raise UserError(
            f"{place}: holds {len(foreign)} parameters that {name} does not have ({_some(foreign)}); it belongs to "
            f"another model, see `lgx backbones`"
        )


def _heads(name: str) -> tuple[str, ...]:
    known = timm.get_pretrained_cfg(name)
    given = (known.classifier if known else None) or "head"
    return tuple(f"{head}." for head in ((given,) if isinstance(given, str) else given))


def _some(names: Any) -> str:
    return ", ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect what timm says about weights, instead of printing it."""
    lines: list[str] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("timm")
    before = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def _names(logged: list[str], kind: str) -> tuple[str, ...]:
    found = (re.match(rf"{kind} keys \((.*)\) (?:discovered|found)", line) for line in logged)
    return tuple(name for match in found if match for name in match[1].split(", "))
