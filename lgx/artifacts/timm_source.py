"""The text form of a model of timm with weights: ``timm:NAME,weights=FILE,img_size=64,patch_size=8``."""

import difflib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import timm

from lgx.artifacts.remote import cached, is_remote, pinned
from lgx.errors import UserError

PREFIX = "timm:"
WEIGHTS_SUFFIXES = (".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".tar")
"""How the names of files of weights end."""

_LARGEST = 65_536


@dataclass(frozen=True)
class TimmSource:
    """A model of timm, where its weights come from, and the sizes to which timm resamples them.

    Attributes:
        model: Name in timm, with or without a tag: ``deit_tiny_patch16_224.fb_in1k``.
        weights: File of weights; None downloads them as timm does.
        img_size: Height and width of the images, pixels; None keeps the model's own.
        patch_size: Height and width of a patch, pixels; likewise.
        in_chans: Channels of the images; likewise.
        num_classes: Classes of the weights' head; 0 leaves the head out; None is what timm states.

    Raises:
        UserError: If timm does not know the model, or a number is out of range.
    """

    model: str
    weights: str | None = None
    img_size: int | None = None
    patch_size: int | None = None
    in_chans: int | None = None
    num_classes: int | None = None

    def __post_init__(self) -> None:
        if not timm.is_model(self.model.split(".")[0]):
            close = difflib.get_close_matches(self.model, timm.list_models(), n=2)
            hint = f"did you mean {' or '.join(close)}?" if close else "see `lgx backbones`"
            raise UserError(f"{PREFIX}{self.model[:100]}: timm has no such model; {hint}")
        tag, known = self.model.partition(".")[2], timm.list_pretrained(f"{self.model.split('.')[0]}.*")
        if tag and self.model not in known:
            raise UserError(f"{PREFIX}{self.model[:100]}: timm has no such tag; known are {', '.join(known) or 'none'}")
        for key, least in (("img_size", 1), ("patch_size", 1), ("in_chans", 1), ("num_classes", 0)):
            value = getattr(self, key)
            if value is not None and not least <= value <= (_LARGEST if least else 10**6):
                raise UserError(f"{PREFIX}{self.model}: {key} must be at least {least}, and no larger than models are")

    @classmethod
    def parse(cls, text: str) -> "TimmSource":
        """Read the text form.

        Args:
            text: ``timm:NAME`` and, after commas, any of the attributes as ``key=value``.

        Raises:
            UserError: If a key is unknown or given twice, or a value is malformed.
        """
        model, *parts = text.removeprefix(PREFIX).split(",")
        values: dict[str, Any] = {}
        numbers = {field.name: int in get_args(field.type) for field in fields(cls) if field.name != "model"}
        for part in parts:
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if key not in numbers or not equals or key in values:
                raise UserError(
                    f"{text[:200]}: expected {PREFIX}NAME and key=value after commas, each once, got {part[:50]!r}; "
                    f"the keys are {', '.join(numbers)}"
                )
            if numbers[key] and not (value.isdecimal() and len(value) < 10):
                raise UserError(f"{text[:200]}: {key} must be a whole number, got {value[:50]!r}")
            values[key] = int(value) if numbers[key] else value
        return cls(model.strip(), **values)

    @property
    def name(self) -> str:
        """The text form."""
        given = [(field.name, getattr(self, field.name)) for field in fields(self)[1:]]
        return ",".join([f"{PREFIX}{self.model}", *(f"{key}={value}" for key, value in given if value is not None)])

    def arguments(self) -> dict[str, Any]:
        """The arguments of ``timm.create_model`` that the attributes ask for."""
        keys = ("img_size", "patch_size", "in_chans", "num_classes")
        return {key: getattr(self, key) for key in keys if getattr(self, key) is not None}


def is_timm_source(text: str) -> bool:
    """Whether a source has the text form."""
    return text.startswith(PREFIX)


def file_of(source: str) -> str:
    """The path in a source: that of the weights in the text form, otherwise the source itself."""
    parts = source.split(",")[1:] if is_timm_source(source) else []
    return next((part.partition("=")[2].strip() for part in parts if part.strip().startswith("weights=")), source)


def pinned_source(source: str) -> str:
    """The name of exactly the version of a source that is read now, see :func:`~lgx.artifacts.remote.pinned`.

    Args:
        source: A source, also one in the text form with weights from elsewhere.

    Raises:
        UserError: If the source, or its weights, cannot be downloaded.
    """
    weights = file_of(source)
    if weights == source:
        return pinned(source)
    return replace(TimmSource.parse(source), weights=pinned(weights)).name if is_remote(weights) else source


def weights_of(source: str) -> Path | None:
    """The file of weights that a source names, if it is here: itself, or that of a model folder."""
    if "\0" in source or len(source) > 4096:
        return None
    path = Path(cached(file_of(source)))
    files = [path / name for name in ("model.safetensors", "pytorch_model.bin")] if path.is_dir() else [path]
    return next((file for file in files if file.suffix in WEIGHTS_SUFFIXES and file.is_file()), None)
