"""Check that a model folder's ``config.json`` belongs to the weights beside it, before a library reads the folder.

timm and transformers first build what the configuration describes, in memory of any size, and then compare it with the
weights.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import timm
from torch import Tensor

from lgx.architectures import GPT2Architecture
from lgx.architectures.meta_device import building_on
from lgx.artifacts.metadata_schema import described_architecture
from lgx.artifacts.tensor_checks import check_shapes
from lgx.core.schema import CLASSES, LINE, MAPPING, at_most, check_fields, one_of, shortened
from lgx.errors import UserError

_AGAIN = "write the folder again"
_LARGEST = 65_536
_LAYERS = ("depth", "depths", "layers", "num_layers", "num_blocks")
"""Arguments of timm's models that count modules which timm builds one by one."""

_GPT2 = {
    "n_layer": at_most(1000, 1),
    "n_embd": at_most(_LARGEST, 1),
    "n_head": at_most(_LARGEST, 1),
    "n_positions": at_most(2**20, 1),
    "vocab_size": at_most(2**24, 2),
    "num_labels": CLASSES,
    "attn_implementation": one_of("eager", "sdpa"),  # for other names transformers downloads code
    "_attn_implementation": one_of("eager", "sdpa"),
}


def check_timm_folder(about: Mapping[str, Any], tensors: Mapping[str, Tensor], config: Path) -> None:
    """Refuse a configuration of timm that describes a much larger network than the weights.

    Args:
        about: Content of ``config.json``.
        tensors: Content of ``model.safetensors``.
        config: Path of ``config.json``.

    Raises:
        UserError: If a size or the number of parameters is far larger than the weights allow.
    """
    about = check_fields(about, {"architecture": LINE, "model_args": MAPPING, "pretrained_cfg": MAPPING}, str(config))
    for key, size in _sizes(about.get("model_args", {})):
        most = len(tensors) if key in _LAYERS else _LARGEST
        if not abs(size) <= most:
            raise UserError(
                f"{config}: model_args: {key} is {shortened(size)}, but the weights beside it allow at most {most:,}; "
                f"{_AGAIN}"
            )
    try:
        with building_on("meta"):
            expected = timm.create_model(f"local-dir:{config.parent}", pretrained=False).state_dict()
    except Exception:  # some models of timm cannot be built on the meta device; timm reports other mistakes itself
        return
    # The names are not compared, because timm renames the parameters of other projects' models.
    wanted, there = (sum(tensor.numel() for tensor in each.values()) for each in (expected, tensors))
    if wanted > 2 * there + 10**7:
        raise UserError(f"{config}: describes {wanted:,} parameters, but model.safetensors holds {there:,}; {_AGAIN}")


def check_gpt2_folder(about: Mapping[str, Any], tensors: Mapping[str, Tensor], config: Path) -> None:
    """Refuse a configuration of transformers that describes another GPT-2 than the weights.

    Args:
        about: Content of ``config.json``.
        tensors: Content of ``model.safetensors``.
        config: Path of ``config.json``.

    Raises:
        UserError: If a size is too large, parameters have other shapes, or the configuration makes transformers
            download code.
    """
    about = check_fields(about, _GPT2, str(config))
    if "quantization_config" in about:
        raise UserError(f"{config}: quantized weights are not supported; save the model without quantization_config")
    default = GPT2Architecture()
    described = {
        "family": GPT2Architecture.family,
        "depth": about.get("n_layer", default.depth),
        "embed_dim": about.get("n_embd", default.embed_dim),
        "num_heads": about.get("n_head", default.num_heads),
        "max_len": about.get("n_positions", default.max_len),
        "vocab_size": about.get("vocab_size", default.vocab_size),
    }
    architecture = described_architecture(described, str(config))
    body = {f"transformer.{name.removeprefix('transformer.')}": tensor for name, tensor in tensors.items()}
    layers = check_shapes(body, architecture, str(config))
    if layers != architecture.depth:
        raise UserError(
            f"{config}: n_layer is {architecture.depth}, but model.safetensors holds {layers} layers; {_AGAIN}"
        )


def _sizes(arguments: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """All numbers in nested arguments, each with the name of its argument."""
    waiting: list[tuple[str, Any]] = list(arguments.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, inner) for inner in value]
        elif isinstance(value, int | float):
            yield key, value
