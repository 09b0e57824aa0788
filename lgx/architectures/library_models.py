"""Models of timm and torchvision, e.g. ``timm:resnet34`` and ``torchvision:resnet34,img_size=64``."""

import difflib
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import timm
import torchvision
from torch import nn

from lgx.architectures.base import read_options
from lgx.architectures.meta_device import building_on
from lgx.core.image_size import IMAGE_SIZE, ImageSize, height_width, parse_image_size
from lgx.core.schema import at_most, check_fields
from lgx.errors import UserError
from lgx.host.failures import foreign_errors

Library = Literal["timm", "torchvision"]
LIBRARIES = tuple(f"{library}:" for library in get_args(Library))
"""Prefixes of specifications of these models."""


@dataclass(frozen=True)
class LibraryModel:
    """An image classifier of timm or torchvision.

    Attributes:
        library: The library, ``timm`` or ``torchvision``.
        model: Name of the model in this library.
        num_classes: Outputs of the head, K.
        img_size: Size of the image.
        in_chans: Image channels; 3 for torchvision's models.
    """

    library: Library
    model: str
    num_classes: int = 1000
    img_size: ImageSize = 224
    in_chans: int = 3

    def __post_init__(self) -> None:
        known = _models(self.library)
        if self.model not in known:
            close = difflib.get_close_matches(self.model, known, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"for example {self.library}:resnet34"
            raise UserError(f"architecture {self.name}: {self.library} has no classifier with this name; {hint}")
        check_fields(vars(self), {"img_size": IMAGE_SIZE, "in_chans": at_most(1000, 1)}, f"architecture {self.name}")
        if self.library == "torchvision" and self.in_chans != 3:
            raise UserError(
                f"architecture {self.name}: torchvision's models take 3 channels, not {self.in_chans}; "
                f"timm's take any number"
            )

    @property
    def name(self) -> str:
        """``timm:resnet34``."""
        return f"{self.library}:{self.model}"

    @property
    def image(self) -> tuple[int, int, int]:
        """(C, H, W) of its images."""
        return self.in_chans, *height_width(self.img_size)

    def build(self, device: str | None = None) -> nn.Module:
        """Build the model with the library's own random initialization.

        Returns:
            The model, (B, C, H, W) -> logits (B, K).
        """
        kinds = (TypeError, ValueError, RuntimeError, AssertionError, NotImplementedError)
        with (
            foreign_errors(self.name, f"{self.library} could not build it", "choose another size or model", kinds),
            building_on(device),
        ):
            if self.library == "timm":
                return timm.create_model(self.model, num_classes=self.num_classes, **self.timm_args())
            of_torchvision: nn.Module = torchvision.models.get_model(
                self.model, weights=None, num_classes=self.num_classes
            )
            return of_torchvision

    def timm_args(self) -> dict[str, Any]:
        """Arguments of ``timm.create_model`` that differ from the model's defaults, without the number of classes."""
        args: dict[str, Any] = {} if self.in_chans == 3 else {"in_chans": self.in_chans}
        config = timm.get_pretrained_cfg(self.model)
        if config is not None and config.fixed_input_size and self.img_size != config.input_size[-1]:
            args["img_size"] = self.img_size
        return args


def parse_library_model(text: str, num_classes: int) -> LibraryModel:
    """Read ``timm:resnet34`` or ``timm:resnet34,img_size=64,in_chans=1``.

    Args:
        text: Library, model and options. The default image size is the model's own, for torchvision 224.
        num_classes: Number of classes of the head.
    """
    first, *rest = [part.strip() for part in text.split(",")]
    library, _, model = first.partition(":")
    config = timm.get_pretrained_cfg(model) if library == "timm" and model in _models("timm") else None
    values: dict[str, Any] = {"img_size": config.input_size[-1]} if config is not None else {}

    def read(key: str, value: str) -> dict[str, Any]:
        return {key: parse_image_size(value) if key == "img_size" else int(value)}

    known = "img_size and in_chans (--num_classes gives the classes)"
    values |= read_options(text, rest, read, known, ("img_size", "in_chans"))
    return LibraryModel(cast(Library, library), model, num_classes, **values)


def _models(library: Library) -> list[str]:
    if library == "timm":
        return timm.list_models()
    return cast(list[str], torchvision.models.list_models(module=torchvision.models))
