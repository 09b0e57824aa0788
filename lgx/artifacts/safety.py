"""Checks of what foreign files hold: descriptions of architectures, and tensors.

The module that reads a file calls them, each once.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from lgx.architectures import Architecture, architecture_from_dict
from lgx.core.schema import check_fields
from lgx.errors import UserError

AGAIN = "save it again"
"""Remedy for a file that contradicts itself."""
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of weights; eight-bit numbers are quantized and need a scale."""
_WHOLE = ("num_batches_tracked", "attention_bias_idxs", "position_ids", "relative_position_index")
"""Last parts of the names of integer buffers that may be in a file of weights."""


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


def check_weights(tensors: Mapping[str, Tensor], place: str) -> None:
    """Refuse tensors of types that float32, in which lgx computes, does not hold, and values that are not finite.

    Every file of weights is checked before its tensors are converted.

    Args:
        tensors: The tensors by name.
        place: Where they come from, for the message.
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise UserError(f"{place}: {name[:100]} is no tensor; give a file of the network's weights alone")
        if tensor.dtype not in _FLOATS and name.rpartition(".")[2] not in _WHOLE:
            raise UserError(
                f"{place}: {name[:100]} is of {tensor.dtype}, expected floating-point numbers; give the file before "
                f"quantization or conversion"
            )
    refuse_non_finite(tensors, place)


def refuse_non_finite(tensors: Mapping[str, Tensor], place: str) -> None:
    """Refuse tensors with NaN or infinity; see :func:`check_weights`."""
    wrong = next((name for name, t in tensors.items() if t.is_floating_point() and not _is_finite(t)), None)
    if wrong is not None:
        raise UserError(
            f"{place}: {wrong} has values that are not finite; train with a lower learning rate, or copy the file again"
        )


def _is_finite(tensor: Tensor) -> bool:
    """Whether all values are finite in float32; a few at a time, because torch needs twice the memory for this."""
    return all(part.float().isfinite().all() for part in tensor.flatten().split(2**22))


def count_layers(names: Iterable[str], prefix: str) -> int:
    """Count the layers among names of parameters.

    Args:
        names: Names of parameters; those of layers begin with ``prefix`` and the layer's number.
        prefix: :attr:`Architecture.layers`.
    """
    return len({name.removeprefix(prefix).partition(".")[0] for name in names if name.startswith(prefix)})
