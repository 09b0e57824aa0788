"""Check that tensors of a file agree with the architecture that the file describes."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.artifacts.metadata_schema import AGAIN
from lgx.errors import UserError
from lgx.host.failures import foreign_errors


def count_layers(names: Iterable[str], prefix: str, place: str) -> int:
    """Count the layers among names of parameters.

    Args:
        names: Names of parameters; those of layers begin with ``prefix`` and the layer's number.
        prefix: :attr:`Architecture.layers`.
        place: Where the names come from, for the message.

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
    """Whether a value is a tensor of floating-point numbers that stores a number for each element."""
    return is_number_tensor(value) and bool(value.is_floating_point())


def is_number_tensor(value: Any) -> bool:
    """Whether a value is an ordinary tensor, of whole numbers also, that stores a number for each element."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_meta:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def check_shapes(tensors: Mapping[str, Tensor], architecture: Architecture, place: str, strict: bool = False) -> int:
    """Compare tensors with an architecture's parameters of the same names, for any number of layers.

    Args:
        tensors: Parameters; some of the architecture's may be missing.
        architecture: The architecture, with any depth.
        place: Where the tensors come from, for the message.
        strict: Whether to refuse parameters that the architecture lacks.

    Returns:
        Number of layers among the tensors.

    Raises:
        UserError: If a tensor has another shape, or the layers are not numbered without a gap.
    """
    # Only as many layers are built as the file has, so a false description takes no memory.
    layers = count_layers(tensors, architecture.layers, place)
    with foreign_errors(place, "its architecture cannot be built", AGAIN, (RuntimeError, TypeError)):
        expected = architecture.unshared().replace(depth=max(1, layers)).build("meta").state_dict()
    for name, tensor in tensors.items():
        if strict and name not in expected:
            raise UserError(f"{place}: holds {name[:100]}, which its architecture lacks; {AGAIN}")
        if name in expected and tensor.shape != expected[name].shape:
            raise UserError(
                f"{place}: {name} has shape {tuple(tensor.shape)}, but its architecture says "
                f"{tuple(expected[name].shape)}; {AGAIN}"
            )
    return layers
