"""Loads hypernetworks: this project's own, and those of the official GHN-3, LoGAH and TAL code."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from lgx.architectures.meta_device import building_on
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.safetensors_files import read_safetensors
from lgx.artifacts.safety import check_weights, count_layers
from lgx.errors import UserError
from lgx.hypernet.config import HypernetConfig
from lgx.hypernet.hypernet import Hypernet
from lgx.hypernet.official_format import check_keys, rename_official_options, rename_official_weights


def load(
    source: str | Path | Learngene | Mapping[str, Tensor],
    config: HypernetConfig | Mapping[str, Any] | None = None,
    name: str = "the given weights",
) -> Hypernet:
    """Load a hypernetwork.

    The configuration must be given or stored with the weights; it is never guessed from them.

    Args:
        source: A safetensors file, a torch checkpoint of tensors and plain types, a learngene, or a state dict. The
            weights may have the names of this project or of the official GHN-3, LoGAH and TAL code. The files that were
            released with GHN-3 are joblib pickles, which can run code when they are read. Convert one that you trust:
            ``safetensors.torch.save_file(joblib.load("ghn3xlm16.pt"), "ghn3xlm16.safetensors")``.
        config: Its configuration, with the keys of :class:`~lgx.hypernet.config.HypernetConfig` or of the official code
            (``hid``, ``lora_r``, ...). By default it is read from the file: from ``hypernet`` in a file of this
            project, from ``config`` in an official one.
        name: What messages call weights that are not a file.

    Returns:
        The hypernetwork in eval mode.
    """
    if isinstance(source, str | Path):
        name = str(source)
        state, stored = _read(name)
    elif isinstance(source, Learngene):
        state, stored = _of_learngene(source, name)
    else:
        state, stored = dict(source), None
    chosen = config if config is not None else stored
    if chosen is None:
        raise UserError(f"{name}: does not store the hypernetwork's configuration; give it with --config FILE.json")
    if not isinstance(state, Mapping) or not all(isinstance(k, str) for k in state):
        raise UserError(f"{name}: contains no state dict of tensors")
    check_weights(state, name)
    state = {key.removeprefix("network."): tensor for key, tensor in state.items()}
    if not isinstance(chosen, HypernetConfig):
        chosen = read_config(chosen, name)
    renamed = rename_official_weights(state, chosen) if "embed.weight" in state else dict(state)
    _check_weights(renamed, chosen, name)
    hypernet = Hypernet(chosen)
    hypernet.load_state_dict(renamed)
    return hypernet.eval()


def _read(name: str) -> tuple[Any, Any]:
    """State dict and stored configuration of a file, not checked; the configuration is None if there is none."""
    if name.endswith(SUFFIX):
        return _of_learngene(Learngene.load(name), name)
    if name.endswith(".safetensors"):
        return read_safetensors(name)[0], None
    checkpoint = load_checkpoint(name, [Namespace])  # the official code stores its options as a Namespace
    state = checkpoint.get("state_dict", checkpoint)
    if not isinstance(about := checkpoint.get("lgx"), dict):
        return state, checkpoint.get("hypernet", checkpoint.get("config"))
    stored = about.get("hypernet")
    if stored is None:
        raise UserError(f"{name}: a checkpoint of a {about.get('method')} run, not of a hypernetwork")
    return state, stored


def _of_learngene(learngene: Learngene, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if learngene.hypernet is None:
        raise UserError(f"{name}: a learngene of {learngene.method}, not a hypernetwork")
    return learngene.weights, learngene.hypernet


def _check_weights(weights: Mapping[str, Tensor], config: HypernetConfig, name: str) -> None:
    """Refuse weights whose names or shapes do not fit the configuration."""
    if (layers := count_layers(weights, "encoder.blocks.", name)) != config.layers:
        raise UserError(
            f"{name}: has {layers} layers, but the configuration says {config.layers}; give the configuration that "
            f"belongs to the weights with --config"
        )
    # On the meta device, sizes that a file claims take no memory before they are checked.
    with building_on("meta"):
        hypernet = Hypernet(config)
    try:
        hypernet.load_state_dict(dict(weights), assign=True)  # without a warning for each weight
    except RuntimeError as error:
        differ = " ".join(str(error).partition("\n")[2].split())
        raise UserError(f"{name}: does not fit the configuration; these weights differ: {differ[:300]}") from error


def read_config(values: Any, name: str) -> HypernetConfig:
    """Check the configuration that a file stores.

    Args:
        values: Options with the keys of :class:`~lgx.hypernet.config.HypernetConfig` or of the official code (``hid``,
            ``lora_r``, ...).
        name: The file, for the message.

    Returns:
        The configuration.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{name}: the configuration is a {type(values).__name__}, expected keys and values")
    if "hid" in values:
        values = rename_official_options(values, name)
    else:
        known = [field.name for field in fields(HypernetConfig)]
        unneeded = {"task_width", "vocab_size", "size_embedding"}
        if values.get("decoder") == "conv":
            unneeded |= {"rank", "max_size", "layout"}
        check_keys(values, known, set(known) - unneeded, name)
    try:
        return HypernetConfig(**values)
    except UserError as error:
        raise UserError(f"{name}: {' '.join(str(error).split())[:300]}") from error
