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

_FORMER = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "lasttoken"}
"""Keys of sentence-transformers' files -> their names since version 6, which reads these keys, too."""
_AGAIN = "copy the folder again"


class Space(NamedTuple):
    """A linear map into the space of another network's vectors.

    Attributes:
        weight: (T, D).
        bias: (T,).
        pooling: How the vector of a text is made of its tokens.
    """

    weight: Tensor
    bias: Tensor
    pooling: Pooling = "mean"


def read_pooling(folder: Path) -> Pooling:
    """How the vector of a text is made of its tokens, from a folder of sentence-transformers; by default their mean.

    Raises:
        UserError: If it is made in another way than lgx knows.
    """
    file = folder / POOLING / CONFIG
    if not file.is_file():
        return "mean"
    about = check_fields({"about": read_json(file, _AGAIN)}, {"about": MAPPING}, str(file))["about"]
    chosen = [key for key, value in about.items() if key.startswith("pooling_mode_") and value is True]
    mode = about.get("pooling_mode") or (_FORMER.get(chosen[0], chosen[0]) if len(chosen) == 1 else chosen)
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
    return Space(weight.float(), bias.float(), read_pooling(folder))


def write_space(folder: Path, space: Space, reads_text: bool) -> None:
    """Write the map beside a network; for texts all that sentence-transformers needs to give normalized vectors.

    Args:
        folder: The folder of the network.
        space: The map.
        reads_text: Whether the network reads texts.
    """
    width, inner = space.weight.shape
    (folder / DENSE).mkdir()
    tensors = {"linear.weight": space.weight, "linear.bias": space.bias}
    write_safetensors(folder / DENSE / WEIGHTS, tensors, {"format": "pt"})
    if not reads_text:
        return
    identity = "torch.nn.modules.linear.Identity"
    dense = {"in_features": inner, "out_features": width, "bias": True, "activation_function": identity}
    (folder / POOLING).mkdir()
    pooled = {"word_embedding_dimension": inner, **{key: name == space.pooling for key, name in _FORMER.items()}}
    kinds = {"": "Transformer", POOLING: "Pooling", DENSE: "Dense", "3_Normalize": "Normalize"}
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(kinds.items())
    ]
    for path, about in ((f"{DENSE}/{CONFIG}", dense), (f"{POOLING}/{CONFIG}", pooled), (MODULES, modules)):
        (folder / path).write_text(json.dumps(about, indent=2), encoding="utf-8")
