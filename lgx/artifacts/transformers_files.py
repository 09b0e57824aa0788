"""Read networks of texts of transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lgx.architectures import HFArchitecture
from lgx.architectures.hf import describe_config
from lgx.artifacts.safety import AGAIN, check_weights
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors


def is_text_network(about: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a language model or of a classifier of texts of transformers."""
    if not isinstance(about.get("model_type"), str) or "architecture" in about:  # timm's folders name the latter
        return False
    with extra("nlp", "config.json"):
        from lgx.architectures.hf_config import text_model_types
    return about["model_type"] in text_model_types()


def read_text_network(
    about: Mapping[str, Any], config: Path
) -> tuple[dict[str, Tensor], HFArchitecture, tuple[str, ...], tuple[str, ...]]:
    """Read a network of texts, as transformers reads it; code in the folder is never executed.

    Args:
        about: What ``config.json`` holds.
        config: The file.

    Returns:
        Parameters under transformers' names; the architecture, without classes if the source has no head; names of the
        parameters that the source lacks, which are random: of the head, or of a pooler before it; names of the classes
        in index order, () if unknown.
    """
    with extra("nlp", str(config)):
        from lgx.architectures.hf_config import network_class
    architecture = describe_config(about, str(config))
    folder = config.parent
    kind = network_class(architecture.configuration(), architecture.kind)
    with foreign_errors(str(folder), "transformers cannot load it", "copy it again"), torch.random.fork_rng(devices=[]):
        options = {"config": architecture.configuration(), "dtype": "auto", "local_files_only": True}
        network, loading = kind.from_pretrained(
            folder, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    for name, stored, described in sorted(loading["mismatched_keys"]):
        raise UserError(
            f"{config}: {name} has shape {tuple(stored)}, but the configuration gives {tuple(described)}; {AGAIN}"
        )
    lacking, unknown = sorted(loading["missing_keys"]), sorted(loading["unexpected_keys"])
    lost = [name for name in lacking if name not in architecture.structure.after_tokens]
    if lost:
        raise UserError(f"{config}: the weights beside it lack {lost[0]}; copy them again")
    more = [name for name in unknown if name.startswith((architecture.layers, _without_base(architecture)))]
    if more:
        raise UserError(
            f"{config}: describes {architecture.depth} layers, but the weights also hold {more[0]}; {AGAIN}"
        )
    tensors = dict(network.named_parameters())
    if any(name in tensors for name in architecture.tied_names()):  # the file has a head of its own
        architecture = describe_config({**about, "tie_word_embeddings": False}, str(config))
    if architecture.kind != "language" and any(name.startswith(architecture.head_prefixes) for name in lacking):
        architecture = architecture.replace(num_classes=0)
    shapes = {name: p.shape for name, p in architecture.build("meta").named_parameters()}
    check_weights(tensors, str(config))
    weights = {name: tensors[name].detach()[: shape[0]] for name, shape in shapes.items()}
    names = _names(about.get("id2label") or {}) if architecture.num_classes and architecture.kind != "language" else ()
    return weights, architecture, tuple(name for name in lacking if name in shapes), names


def _without_base(architecture: HFArchitecture) -> str:
    """Prefix of the names of layers in files of networks without a head."""
    return architecture.layers.partition(".")[2]


def _names(labels: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the classes in index order; () for transformers' placeholders."""
    made_up = tuple(f"LABEL_{index}" for index in range(len(labels)))
    names = tuple(str(labels.get(str(index), name)) for index, name in enumerate(made_up))
    return () if names == made_up else names
