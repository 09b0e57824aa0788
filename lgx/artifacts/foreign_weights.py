"""Read files of weights that other programs wrote, without running code."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from timm.models import clean_state_dict
from torch import Tensor

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.remote import located
from lgx.artifacts.safetensors_files import read_safetensors
from lgx.artifacts.tensor_checks import is_number_tensor
from lgx.artifacts.timm_source import WEIGHTS_SUFFIXES
from lgx.core.schema import LINE
from lgx.errors import UserError
from lgx.host.safety import refuse_non_finite

_STATES = ("state_dict_ema", "model_ema", "state_dict", "model", "module", "teacher")
"""Keys below which programs store a network's weights beside others; averaged weights come first, as in timm."""


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read the weights of one network.

    Args:
        path: A safetensors file, also one on the hub or a URL, or a file of ``torch.save``: a state dict, or a
            checkpoint with one. Averaged weights are preferred.

    Returns:
        Tensors by name; the prefixes of DDP and ``torch.compile`` are removed.

    Raises:
        UserError: If the file is missing, damaged, or holds anything but tensors and plain types; if it holds no
            weights, or some that are not finite.
    """
    path = Path(located(str(path)))
    if not path.is_file():
        raise UserError(f"{path}: no such file of weights")
    if path.suffix not in WEIGHTS_SUFFIXES:
        raise UserError(f"{path}: unknown kind of file; expected a name that ends in {', '.join(WEIGHTS_SUFFIXES)}")
    is_safe = path.suffix == ".safetensors"
    values: Mapping[str, Any] = read_safetensors(path)[0] if is_safe else _state(load_checkpoint(path, [Namespace]))
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    if not tensors:
        held = ", ".join(str(key)[:30] for key in list(values)[:5]) or "nothing"
        raise UserError(f"{path}: holds no tensors by name but {held}; give a file with a network's state dict")
    for name, tensor in tensors.items():
        if not LINE.holds(name) or not is_number_tensor(tensor):
            raise UserError(f"{path}: {str(name)[:100]!r} is no ordinary tensor; save the network's state dict again")
    cleaned: dict[str, Tensor] = clean_state_dict(tensors)
    refuse_non_finite(cleaned, str(path))
    return cleaned


def _state(checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state dict within a checkpoint."""
    for _ in range(3):  # BEiT stores `module` below `model`
        below = next((key for key in _STATES if isinstance(checkpoint.get(key), dict) and checkpoint[key]), None)
        if below is None:
            break
        checkpoint = checkpoint[below]
    return checkpoint
