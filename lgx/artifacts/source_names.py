"""Parse names of learngenes, networks and weights, without reading files or asking servers."""

import difflib
import re
from dataclasses import dataclass
from typing import Any, Self

import timm

from lgx.core.schema import CLASSES, at_most, check_fields
from lgx.core.task import IMAGE_SIZE, ImageSize
from lgx.errors import UserError

HUB, TIMM = "hf://", "timm:"
"""Beginnings of sources."""
SAFETENSORS, LEARNGENE = ".safetensors", ".learngene.safetensors"
"""How the names of weights and of learngenes end."""
FINAL_LEARNGENE = f"final{LEARNGENE}"
"""The learngene of a run, in its folder."""
WEIGHTS, CONFIG, RECORD = "model.safetensors", "config.json", "lgx.json"
"""Files of a model folder, which must have the first two; the third is lgx's own, see
:class:`~lgx.artifacts.safetensors_files.StartRecord`."""
OF_TEXTS = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    "generation_config.json",
)  # fmt: skip
"""Files of a folder of transformers that networks of other sizes share: of its tokenizer, and for generation."""
MODULES, POOLING, DENSE = "modules.json", "1_Pooling", "2_Dense"
"""The file and folders of sentence-transformers that hold how a text's vector is pooled and mapped; images have the
last one, too."""
BESIDE = (RECORD, *OF_TEXTS, MODULES, POOLING, DENSE)
"""Further files of a model folder."""
WEIGHTS_SUFFIXES = (SAFETENSORS, ".ckpt", ".pt", ".pth", ".bin", ".tar")
"""How the names of files of weights end."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*(::|://)")
_COUNT = at_most(65_536, 1)
_FIELDS = {"img_size": IMAGE_SIZE, "patch_size": _COUNT, "in_chans": _COUNT, "num_classes": CLASSES}


def is_remote(text: str) -> bool:
    """Whether a source is a name on the hub, or a URL."""
    return _URL.match(text) is not None


@dataclass(frozen=True)
class TimmSource:
    """A model of timm, where its weights come from, and the sizes to which timm resamples them.

    Attributes:
        model: Name in timm, with or without a tag: ``deit_tiny_patch16_224.fb_in1k``.
        weights: File of weights; None downloads them as timm does.
        img_size: Size of the images; None keeps the model's own.
        patch_size: Height and width of a patch in pixels; None keeps the model's own.
        in_chans: Channels of the images; None keeps the model's own.
        num_classes: Classes of the weights' head; 0 leaves the head out; None: as timm states.
    """

    model: str
    weights: str | None = None
    img_size: ImageSize | None = None
    patch_size: int | None = None
    in_chans: int | None = None
    num_classes: int | None = None

    def __post_init__(self) -> None:
        base, _, tag = self.model.partition(".")
        if not timm.is_model(base) or (tag and self.model not in timm.list_pretrained(f"{base}.*")):
            others = timm.list_pretrained(f"{base}.*") if timm.is_model(base) else timm.list_models()
            close = difflib.get_close_matches(self.model, others, n=2, cutoff=0.4 if tag else 0.6)
            hint = f"did you mean {' or '.join(close)}?" if close else "timm.list_models names all"
            raise UserError(f"{self.model[:100]}: not a file, a folder or a model that timm knows; {hint}")
        values = {key: value for key, value in vars(self).items() if value is not None}
        check_fields(values, _FIELDS, f"{TIMM}{self.model}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``timm:NAME``; ``timm:`` may be left out. A file of weights, or other sizes, need ``lgx import``."""
        return cls(text.removeprefix(TIMM))

    @classmethod
    def named(cls, place: str) -> Self | None:
        """The model that a place names; None if it names no model of timm."""
        return cls.parse(place) if place.startswith(TIMM) or timm.is_model(place.split(".")[0]) else None

    @property
    def name(self) -> str:
        """The text form of its model."""
        return f"{TIMM}{self.model}"

    def arguments(self) -> dict[str, Any]:
        """The arguments of ``timm.create_model`` that the attributes ask for."""
        return {key: getattr(self, key) for key in _FIELDS if getattr(self, key) is not None}

    def build(self) -> Any:
        """The model with random weights."""
        return timm.create_model(self.model, pretrained=False, **self.arguments())
