"""Checks of what foreign files hold: descriptions of tasks and architectures, and tensors.

The module that reads a file calls them, each once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import torch
from torch import Tensor

from lgx.architectures import Architecture, architecture_from_dict
from lgx.core.schema import (
    CLASSES,
    LINE,
    NUMBERS,
    POSITIVE,
    Field,
    at_most,
    check_fields,
    list_of,
    one_of,
)
from lgx.core.task import IMAGE_SIZE, Kind, ResizeMode
from lgx.errors import UserError
from lgx.host.failures import foreign_errors

AGAIN = "save it again"
"""Remedy for a file that contradicts itself."""
_LOWER_RATE = "train again with a lower learning rate"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of weights; eight-bit numbers are quantized and need a scale."""
_WHOLE = ("num_batches_tracked", "attention_bias_idxs", "position_ids", "relative_position_index")
"""Last parts of the names of integer buffers that may be in a file of weights."""

TASK: Mapping[str, Field] = {
    "name": LINE,
    "num_classes": CLASSES,
    "kind": one_of(*get_args(Kind)),
    "metric": LINE,
    "num_train": at_most(2**62),
    "in_chans": at_most(1024),
    "img_size": Field(
        lambda value: (type(value) is int and value == 0) or IMAGE_SIZE.holds(value), f"0 or {IMAGE_SIZE.words}"
    ),
    "mean": NUMBERS,
    "std": POSITIVE,
    "class_names": list_of(Field(lambda value: isinstance(value, str), "texts")),
    "max_len": at_most(2**31),
    "vocab_size": at_most(2**31),
    "bytes_per_token": NUMBERS,
    "value_range": Field(
        lambda value: NUMBERS.holds(value) and (not value or (len(value) == 2 and value[0] < value[1])),
        "two numbers, the smaller one first, or none",
    ),
    "resize": one_of(*get_args(ResizeMode)),
}
"""Keys of ``Task.to_dict``; files may lack some."""


def described_architecture(values: Any, place: str) -> Architecture:
    """The architecture that a file describes.

    Args:
        values: What ``to_dict`` of an architecture gives.
        place: Where the values stand, for the message.
    """
    try:
        return architecture_from_dict(check_fields(values, {}, f"{place}: architecture"))
    except UserError as error:
        raise UserError(f"{place}: {' '.join(str(error).split())}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{place}: its architecture is damaged ({error}); {AGAIN}") from error


def check_weights(tensors: Mapping[str, Tensor], place: str, of_run: bool = False) -> None:
    """Refuse tensors of types that float32, in which lgx computes, does not hold, and values that are not finite.

    Every file of weights is checked before its tensors are converted.

    Args:
        tensors: The tensors by name.
        place: Where they come from, for the message.
        of_run: Whether a run of lgx trained and wrote them.
    """
    for name, tensor in tensors.items():
        if not is_weight(tensor):
            is_index = name.rpartition(".")[2] in _WHOLE and tensor.dtype in (torch.int64, torch.int32)
            if not is_index or not is_number_tensor(tensor):
                held = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
                raise UserError(
                    f"{place}: {name[:100]} is of {held}, expected floating-point numbers; give the file before "
                    f"quantization or conversion"
                )
    refuse_non_finite(tensors, place, of_run)


def refuse_non_finite(tensors: Mapping[str, Tensor], place: str, of_run: bool = False) -> None:
    """Refuse tensors with NaN or infinity; see :func:`check_weights`."""
    wrong = next((name for name, t in tensors.items() if t.is_floating_point() and not _is_finite(t)), None)
    if wrong is not None:
        why = f"training diverged; {_LOWER_RATE}" if of_run else "the file is damaged; copy it or download it again"
        raise UserError(f"{place}: {wrong} has values that are not finite, because {why}")


def _is_finite(tensor: Tensor) -> bool:
    """Whether all values are finite in float32; a few at a time, because torch needs twice the memory for this."""
    return all(part.float().isfinite().all() for part in tensor.flatten().split(2**22))


def is_weight(value: Any) -> bool:
    """Whether a value is a dense tensor of floating-point numbers."""
    return is_number_tensor(value) and value.dtype in _FLOATS


def is_number_tensor(value: Any) -> bool:
    """Whether a value is a dense tensor of floating-point or integer numbers."""
    return isinstance(value, Tensor) and value.layout is torch.strided and not value.is_meta


def count_layers(names: Iterable[str], prefix: str, place: str) -> int:
    """Count the layers among names of parameters.

    Args:
        names: Names of parameters; those of layers begin with ``prefix`` and the layer's number.
        prefix: :attr:`Architecture.layers`.
        place: Where the names come from, for the message.
    """
    numbers = {name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)}
    wrong = numbers ^ {str(layer) for layer in range(len(numbers))}
    if wrong:
        raise UserError(
            f"{place}: its layers are not numbered 0 to {len(numbers) - 1}: {prefix}{min(wrong)[:40]}; {AGAIN}"
        )
    return len(numbers)


def check_shapes(tensors: Mapping[str, Tensor], architecture: Architecture, place: str, strict: bool = False) -> int:
    """Compare tensors with an architecture's parameters of the same names, for any number of layers.

    Args:
        tensors: Parameters; some of the architecture's may be missing.
        architecture: The architecture, with any depth.
        place: Where the tensors come from, for the message.
        strict: Whether to refuse unknown parameters, and incomplete parts: layers, a head, or the rest.

    Returns:
        Number of layers among the tensors.
    """
    # Only as many layers are built as the file has, so a false description takes no memory.
    layers = count_layers(tensors, architecture.layers, place)
    with foreign_errors(place, "its architecture cannot be built", AGAIN, (RuntimeError, TypeError)):
        network = architecture.unshared().replace(depth=max(1, layers)).build("meta")
    expected = network.state_dict()
    for name, tensor in tensors.items():
        if strict and name not in expected:
            raise UserError(f"{place}: holds {name[:100]}, which its architecture lacks; {AGAIN}")
        if name in expected and tensor.shape != expected[name].shape:
            raise UserError(
                f"{place}: {name} has shape {tuple(tensor.shape)}, but its architecture has "
                f"{tuple(expected[name].shape)}; {AGAIN}"
            )

    def part(name: str) -> str:
        if name.startswith(architecture.layers):
            return name.removeprefix(architecture.layers).partition(".")[0]
        return "head" if name.startswith(architecture.head_prefixes) else ""

    held = {part(name) for name in tensors}
    needed = architecture.tensors(network)
    if strict and (missing := [name for name in needed if name not in tensors and part(name) in held]):
        raise UserError(f"{place}: lacks {missing[0]}, but has other parameters of the same part; {AGAIN}")
    return layers
