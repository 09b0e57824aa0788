"""Transforms of training images that a user names in the configuration: ``data.transforms``."""

import difflib
import inspect
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torchvision.transforms import v2

from data_modules.images import DataError
from data_modules.samplers import seeded_rng
from lgx.core.schema import shortened
from lgx.errors import UserError
from lgx.host.safety import error_line
from lgx.host.user_packages import VARIABLE, is_user_class

TransformSpec = dict[str, Any] | str
"""``{class_path: RandomRotation, init_args: {degrees: 15}}``, or a name alone."""

_PACKAGE = "torchvision.transforms.v2"
_OPTION = "data.transforms"
_KNOWN: dict[str, type] = {
    name: value
    for name, value in vars(v2).items()
    if isinstance(value, type) and issubclass(value, v2.Transform) and value is not v2.Transform
}


class OwnTransforms:
    """A user's transforms, one after the other, of the pixels of one image.

    They get pixels, uint8 (C, H, W), and must give an image of the same shape. Numbers between 0 and 1, which a few
    transforms need (``ToDtype``), are rounded to pixels again, so that the normalization stays that of the task.

    Args:
        specs: The transforms, see :data:`TransformSpec`; or the objects themselves.

    Raises:
        UserError: If one is unknown, is not admitted, or refuses its arguments.
    """

    def __init__(self, specs: Sequence[Any]) -> None:
        self.transforms = [(_name(spec), _built(spec)) for spec in specs]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Transform one image.

        Raises:
            UserError: If a transform fails, or the result is no image of the same shape.
        """
        image: Any = pixels
        for name, transform in self.transforms:
            try:
                image = transform(image)
            except (MemoryError, UserError):
                raise
            except Exception as error:
                raise DataError(
                    f"{_OPTION}: {name} cannot transform pixels of the shape {_shape(image)} ({error_line(error)}); "
                    f"choose a transform of single images"
                ) from error
        return _as_pixels(image, pixels)

    def check(self, channels: int, size: int) -> None:
        """Transform one random image, so that most mistakes show before any data is read.

        Args:
            channels: Channels of the images, C.
            size: Height and width, pixels.

        Raises:
            UserError: As a call.
        """
        with seeded_rng(0):
            self(torch.randint(0, 256, (channels, size, size), dtype=torch.uint8))


def _as_pixels(image: Any, pixels: Tensor) -> Tensor:
    if not isinstance(image, Tensor) or image.shape != pixels.shape:
        found = _shape(image) if isinstance(image, Tensor) else f"a {type(image).__name__}"
        raise DataError(
            f"{_OPTION}: the last transform gives {found}, expected an image of the shape {_shape(pixels)}; give it "
            f"this size, or set data.img_size"
        )
    result: Tensor = image.as_subclass(Tensor)  # not one of v2's own classes
    if result.dtype == torch.uint8:
        return result
    if not result.is_floating_point() or not bool(((result >= 0) & (result <= 1)).all()):
        least, most = float(result.min()), float(result.max())
        raise DataError(
            f"{_OPTION}: the last transform gives {result.dtype} of {least:g} to {most:g}, "
            f"expected uint8, or numbers between 0 and 1; data.mean and data.std normalize"
        )
    rounded: Tensor = v2.functional.to_dtype(result, torch.uint8, scale=True)
    return rounded


def _shape(image: Any) -> str:
    return " x ".join(map(str, image.shape)) if isinstance(image, Tensor) else type(image).__name__


def _name(spec: Any) -> str:
    """The class of a transform, for messages."""
    path = spec.get("class_path") if isinstance(spec, dict) else spec if isinstance(spec, str) else type(spec).__name__
    return str(path).rsplit(".", 1)[-1]


def _built(spec: Any) -> Callable[[Any], Any]:
    """The transform that an entry of the list describes."""
    if isinstance(spec, str):
        spec = {"class_path": spec}
    if not isinstance(spec, dict):
        made: Callable[[Any], Any] = spec
        if callable(made):
            return made
        raise UserError(f"{_OPTION}: expected a list of {{class_path: ..., init_args: ...}}, got {shortened(spec)}")
    if not isinstance(spec.get("class_path"), str) or (unknown := set(spec) - {"class_path", "init_args"}):
        found = f"the key {sorted(map(str, unknown))[0]}" if "class_path" in spec else "none"
        raise UserError(f"{_OPTION}: expected class_path, and init_args with the arguments, got {found}")
    kind, options = _class(spec["class_path"]), spec.get("init_args") or {}
    if not isinstance(options, dict):
        raise UserError(f"{_OPTION}: init_args of {kind.__name__} is {shortened(options)}, expected names and values")
    _check_arguments(kind, options)
    try:
        built: Callable[[Any], Any] = kind(**{name: _value(name, value) for name, value in options.items()})
    except (MemoryError, UserError):
        raise
    except Exception as error:
        raise UserError(f"{_OPTION}: {kind.__name__} refuses its arguments ({error_line(error)})") from error
    if not callable(built):
        raise UserError(f"{_OPTION}: {kind.__name__} cannot be called with an image; give it a method __call__")
    return built


def _class(path: str) -> type:
    """The class at a path; a bare name is one of torchvision."""
    package, _, name = path.rpartition(".")
    if package in ("", _PACKAGE):
        if name in _KNOWN:
            return _KNOWN[name]
        close = difflib.get_close_matches(name, _KNOWN, n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else f"it is none of {_PACKAGE}"
        raise UserError(f"{_OPTION}: class {name!r} is unknown; {hint}")
    if not is_user_class(path):
        raise UserError(
            f"{_OPTION}: importing {path} is not allowed; a class path names a class of {_PACKAGE}; "
            f"{VARIABLE}={path.split('.')[0]} also admits {path.split('.')[0]}, if you wrote it or trust it"
        )
    try:
        found = getattr(import_module(package), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{_OPTION}: {path} cannot be imported ({error_line(error)})") from error
    if not isinstance(found, type):
        raise UserError(f"{_OPTION}: {path} is no class; give a class with a method __call__")
    return found


def _check_arguments(kind: type, options: dict[str, Any]) -> None:
    """Refuse arguments that a class does not have, and missing ones."""
    parameters = inspect.signature(kind).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = [str(p.name) for p in named]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in options:
        if name not in names and not takes_any:
            close = difflib.get_close_matches(str(name), names, n=2)
            hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(names) or 'none'}"
            raise UserError(f"{_OPTION}: {name!r} is no argument of {kind.__name__}; {hint}")
    missing = [p.name for p in named if p.default is p.empty and p.name not in options]
    if missing:
        raise UserError(f"{_OPTION}: {kind.__name__} needs {' and '.join(missing)} in init_args")


def _value(name: str, value: Any) -> Any:
    """An argument: transforms inside another one, a type of torch such as ``torch.float32``, or a plain value."""
    if name == "transforms" and isinstance(value, list):
        return [_built(entry) for entry in value]
    if isinstance(value, str) and value.startswith("torch."):
        found = getattr(torch, value.removeprefix("torch."), None)
        return found if isinstance(found, torch.dtype) else value
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{_OPTION}: expected finite numbers, got {value}")
    return value
