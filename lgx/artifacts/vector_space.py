"""The linear map from the vectors of a small network into its ancestor's space, as sentence-transformers stores it."""

import json
from pathlib import Path
from typing import NamedTuple, cast, get_args

from torch import Tensor

from lgx.artifacts.safetensors_files import read_safetensors, write_safetensors
from lgx.artifacts.source_names import CONFIG, DENSE, MODULES, POOLING, WEIGHTS
from lgx.core.schema import MAPPING, check_fields, shortened
from lgx.core.task import Pooling
from lgx.errors import UserError
from lgx.host.safety import read_json

_FORMER = {
    f"pooling_mode_{name}": name.removesuffix("_tokens").removesuffix("_token")
    for name in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
}
"""Names in files of earlier versions of sentence-transformers -> names of today."""
_AGAIN = "copy the folder again"


class Space(NamedTuple):
    """A linear map into the space of another network's vectors.

    Attributes:
        weight: (T, D).
        bias: (T,).
    """

    weight: Tensor
    bias: Tensor


def read_pooling(folder: Path) -> Pooling:
    """How the vector of a text is made of its tokens, from a folder of sentence-transformers; by default their mean.

    Raises:
        UserError: If it is made in another way than lgx knows.
    """
    file = folder / POOLING / CONFIG
    if not file.is_file():
        return "mean"
    about = check_fields({"about": read_json(file, _AGAIN)}, {"about": MAPPING}, str(file))["about"]
    modes = about.get("pooling_mode") or [_FORMER[key] for key in _FORMER if about.get(key) is True]
    mode = modes[0] if isinstance(modes, list) and len(modes) == 1 else modes
    if mode not in get_args(Pooling):
        raise UserError(f"{file}: pools tokens by {shortened(mode)}, expected one of {', '.join(get_args(Pooling))}")
    return cast(Pooling, mode)


def read_space(folder: Path) -> Space | None:
    """The map in a folder; None without one."""
    file = folder / DENSE / WEIGHTS
    if not file.is_file():
        return None
    tensors, _ = read_safetensors(file)
    weight, bias = (tensors.get(f"linear.{name}") for name in ("weight", "bias"))
    if weight is None or bias is None or weight.ndim != 2 or bias.shape != weight.shape[:1]:
        raise UserError(f"{file}: has no linear map, expected linear.weight (T, D) and linear.bias (T); {_AGAIN}")
    return Space(weight.float(), bias.float())


def write_space(folder: Path, space: Space, pooling: Pooling | None) -> None:
    """Write the map beside a network; for texts all that sentence-transformers needs to give normalized vectors.

    Args:
        folder: The folder of the network.
        space: The map.
        pooling: How the vector of a text is made of its tokens; None for images.
    """
    width, inner = space.weight.shape
    (folder / DENSE).mkdir()
    tensors = {"linear.weight": space.weight, "linear.bias": space.bias}
    write_safetensors(folder / DENSE / WEIGHTS, tensors, {"format": "pt"})
    if pooling is None:
        return
    identity = "torch.nn.modules.linear.Identity"
    dense = {"in_features": inner, "out_features": width, "bias": True, "activation_function": identity}
    (folder / POOLING).mkdir()
    pooled = {"word_embedding_dimension": inner, "pooling_mode": pooling}
    pooled |= {key: name == pooling for key, name in _FORMER.items()}
    kinds = {"": "Transformer", POOLING: "Pooling", DENSE: "Dense", "3_Normalize": "Normalize"}
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(kinds.items())
    ]
    for path, about in ((f"{DENSE}/{CONFIG}", dense), (f"{POOLING}/{CONFIG}", pooled), (MODULES, modules)):
        (folder / path).write_text(json.dumps(about, indent=2), encoding="utf-8")
