"""Tasks and architectures as files describe them, and whether the tensors beside the description are theirs."""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import torch
from torch import Tensor

from lgx.architectures import Architecture, architecture_from_dict
from lgx.core.batch import Kind
from lgx.core.schema import CLASSES, LINE, NUMBERS, POSITIVE, Field, at_most, check_fields, list_of, one_of
from lgx.errors import UserError

AGAIN = "save it again"
"""What helps where a file contradicts itself."""

TASK: Mapping[str, Field] = {
    "name": LINE,
    "num_classes": CLASSES,
    "kind": one_of(*get_args(Kind)),
    "metric": LINE,
    "num_train": at_most(2**62),
    "in_chans": at_most(1024),
    "img_size": at_most(65_536),
    "mean": NUMBERS,
    "std": POSITIVE,
    "class_names": list_of(Field(lambda value: isinstance(value, str), "texts")),
    "max_len": at_most(2**31),
    "vocab_size": at_most(2**31),
}
"""What ``Task.to_dict`` gives; files may lack keys of it."""


def described_architecture(values: Any, place: str) -> Architecture:
    """The architecture that a file describes.

    Args:
        values: As ``to_dict`` of an architecture gives them.
        place: Where they stand, for the message.

    Raises:
        UserError: If they describe none.
    """
    try:
        return architecture_from_dict(check_fields(values, {}, f"{place}: architecture"))
    except UserError as error:
        raise UserError(f"{place}: {' '.join(str(error).split())}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{place}: its architecture is damaged ({error}); {AGAIN}") from error


def count_layers(names: Iterable[str], prefix: str, place: str) -> int:
    """Number of layers among the names of parameters.

    Args:
        names: Names, those of layers beginning with ``prefix`` and a number.
        prefix: As :attr:`Architecture.layers` says.
        place: Where they come from, for the message.

    Raises:
        UserError: If the layers are not numbered 0, 1, 2, ... without a gap.
    """
    found = {name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)}
    if wrong := found ^ {str(layer) for layer in range(len(found))}:
        raise UserError(
            f"{place}: its layers are not numbered 0 to {len(found) - 1}: {prefix}{min(wrong)[:40]}; {AGAIN}"
        )
    return len(found)


def is_weight(value: Any) -> bool:
    """Whether it is an ordinary tensor of floating-point numbers, with a number of its own for each element."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    plain = value.layout is torch.strided and not value.is_meta
    return plain and value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def check_shapes(tensors: Mapping[str, Tensor], architecture: Architecture, place: str, strict: bool = False) -> int:
    """Compare tensors with an architecture's parameters of the same names, whatever the number of layers.

    Args:
        tensors: Parameters; there may be fewer than the architecture has.
        architecture: The architecture, with any depth.
        place: Where the tensors come from, for the message.
        strict: Whether to refuse parameters that it does not have.

    Returns:
        Number of layers among the tensors.

    Raises:
        UserError: If one has another shape, or the layers are not numbered without a gap.
    """
    # Only as many layers are built as the file has: what a file claims costs nothing before it is found to be true.
    layers = count_layers(tensors, architecture.layers, place)
    try:
        expected = architecture.unshared().replace(depth=max(1, layers)).build("meta").state_dict()
    except (RuntimeError, TypeError) as error:  # sizes that overflow
        raise UserError(f"{place}: its architecture cannot be built ({str(error).splitlines()[0]}); {AGAIN}") from error
    for name, tensor in tensors.items():
        if strict and name not in expected:
            raise UserError(f"{place}: holds {name[:100]}, which its architecture lacks; {AGAIN}")
        if name in expected and tensor.shape != expected[name].shape:
            raise UserError(
                f"{place}: {name} has shape {tuple(tensor.shape)}, but its architecture says "
                f"{tuple(expected[name].shape)}; {AGAIN}"
            )
    return layers
