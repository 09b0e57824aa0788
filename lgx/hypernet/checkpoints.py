"""Reading hypernetworks, ours and those of the official GHN-3, LoGAH and TAL code.

Only key names are shared with that code; the configuration is given or stored beside the weights, never inferred.
"""

from argparse import Namespace
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lgx.artifacts.learngene import SUFFIX, Learngene, load_checkpoint, read_safetensors
from lgx.artifacts.metadata_schema import count_layers, is_weight
from lgx.core.schema import shortened
from lgx.errors import UserError
from lgx.hypernet.hypernet import Hypernet, HypernetConfig

_ENCODER = {
    "embed": "ops",
    "shape_enc.embed_channel": "shapes.channels",
    "shape_enc.embed_spatial": "shapes.kernels",
    "gnn.0.centrality_embed_in": "in_degrees",
    "gnn.0.centrality_embed_out": "out_degrees",
    "gnn.0.input_dist_embed": "input_distances",
    "gnn.0.attn.edge_embed.embed": "edge_bias.lengths",
    "gnn.0.attn.proj_e.0": "edge_bias.hidden",
    "gnn.0.attn.proj_e.2": "edge_bias.out",
    "ln": "norm",
}
_ENCODER |= {stem.removeprefix("gnn.0."): ours for stem, ours in _ENCODER.items() if stem.startswith("gnn.0.")}
"""GHN-3's code moves the embeddings of degrees and distances into its first block; released files have them outside."""
_BLOCK = {
    "attn.to_qkv": "qkv",
    "attn.to_out.0": "proj",
    "ff.net.0": "fc1",
    "ff.net.3": "fc2",
    "ln1": "norm1",
    "ln2": "norm2",
    "TEN.fc_gamma": "film.gamma",
    "TEN.fc_beta": "film.beta",
}
_CONV = {
    "decoder.fc.0": "fc",
    "decoder.conv.0": "conv1",
    "decoder.conv.2": "conv2",
    "decoder.class_layer_predictor.1": "head_weight",
    "decoder_1d.fc.0": "vector1",
    "decoder_1d.fc.2": "vector2",
    "bias_class.1": "head_bias",
}
_LOW_RANK = {
    "decoder.mlp.fc.0": "fc1",
    "decoder.mlp.fc.2": "fc2",
    "decoder.mlp.fc.4": "fc3",
    "decoder.l2": "basis",
}
_UNUSED = ("decoder.l1", "decoder.seq", "decoder_1d.0", "bias_class.1")
"""Parameters of the official LoGAH that it never reads (``seq`` is ``l2`` under a second name)."""

_OFFICIAL_OPTIONS = {
    "hid": "width", "layers": "layers", "heads": "heads", "max_shape": "max_shape", "num_classes": "num_classes",
    "lora_r": "rank", "max_ck_lora": "max_size", "task_embedding_dim": "task_width",
}  # fmt: skip
_OFFICIAL_FIXED = {"ve": True, "weight_norm": True, "layernorm": True}
"""What every released hypernetwork has; ours know nothing else."""
_OFFICIAL_UNUSED = ("lora", "use_1d_decoder", "is_ghn2", "hypernet", "decoder", "pretrained")
"""What chooses a decoder otherwise, or parts that GHN-3 replaces as soon as they are made."""
_OUR_OPTIONS = ("convention", "class_position_std")
"""What may be added, as the official code leaves it to the version of torch and to chance."""

_LARGEST = {
    "width": 65_536, "layers": 1000, "rank": 65_536, "max_size": 2**24, "num_classes": 100_000, "task_width": 2**20,
    "vocab_size": 2**24, "max_shape": 2**20, "kernels of max_shape": 255,
}  # fmt: skip
"""Sizes beyond which building takes all time or memory."""


def load(
    source: str | Path | Mapping[str, Tensor], config: HypernetConfig | Mapping[str, Any] | None = None
) -> Hypernet:
    """Load a hypernetwork.

    Args:
        source: A safetensors file, a torch checkpoint of tensors and plain types, or a state dict; ours, or under the
            official code's key names (GHN-3, LoGAH, TAL). The files that were released with GHN-3 are joblib's pickles,
            which can run code: where you trust one, turn it into safetensors first,
            ``safetensors.torch.save_file(joblib.load("ghn3xlm16.pt"), "ghn3xlm16.safetensors")``.
        config: Its configuration, with our keys or the official code's (``hid``, ``lora_r``, ...); by default what the
            file stores under ``hypernet`` (ours) or ``config`` (theirs).

    Returns:
        The hypernetwork in eval mode.

    Raises:
        UserError: If the file is damaged, the configuration is missing or does not fit the weights; the sentence names
            the keys that differ.
    """
    name = "the given state dict"
    stored: Mapping[str, Any] | None = None
    if isinstance(source, str | Path):
        name = str(source)
        if name.endswith(SUFFIX):
            learngene = Learngene.load(source)
            state, stored = learngene.weights, learngene.hypernet
            if stored is None:
                raise UserError(f"{name}: a learngene of {learngene.method}, not a hypernetwork")
        elif name.endswith(".safetensors"):
            state, _ = read_safetensors(source)
        else:
            checkpoint = load_checkpoint(source, [Namespace])  # where the official code puts its command line
            state, stored = (
                checkpoint.get("state_dict", checkpoint),
                checkpoint.get("hypernet", checkpoint.get("config")),
            )
            if isinstance(about := checkpoint.get("lgx"), dict):  # a run's own checkpoint
                stored = about.get("hypernet")
                if stored is None:
                    raise UserError(f"{name}: a run of {about.get('method')}, not of a hypernetwork")
    else:
        state = dict(source)
    chosen = config if config is not None else stored
    if chosen is None:
        raise UserError(f"{name}: does not store the hypernetwork's configuration; give it (--config FILE.json)")
    if not isinstance(state, Mapping) or not all(isinstance(k, str) and is_weight(v) for k, v in state.items()):
        raise UserError(f"{name}: holds no state dict of tensors")
    state = {key.removeprefix("network."): tensor for key, tensor in state.items()}
    if not isinstance(chosen, HypernetConfig):
        chosen = read_config(chosen, name)
    renamed = from_official(state, chosen) if "embed.weight" in state else dict(state)
    if (layers := count_layers(renamed, "encoder.blocks.", name)) != chosen.layers:
        raise UserError(
            f"{name}: holds {layers} layers, the configuration says {chosen.layers}; give its own (--config)"
        )
    # Shapes first, without memory: what a file claims costs nothing before it is found to be true.
    with torch.device("meta"):
        own = Hypernet(chosen).state_dict()
    wrong = [f"{key} is missing" for key in sorted(own.keys() - renamed.keys())]
    wrong += [f"{key} is unexpected" for key in sorted(renamed.keys() - own.keys())]
    wrong += [
        f"{k} {tuple(renamed[k].shape)} instead of {tuple(v.shape)}"
        for k, v in own.items()
        if k in renamed and renamed[k].shape != v.shape
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise UserError(f"{name}: does not fit the configuration; these differ: {', '.join(wrong[:3])}{more}")
    hypernet = Hypernet(chosen)
    hypernet.load_state_dict(renamed)
    return hypernet.eval()


def read_config(values: Any, name: str) -> HypernetConfig:
    """The configuration that a file stores.

    Args:
        values: Our keys and values, or the official code's (``hid``, ``lora_r``, ...).
        name: The file, for the message.

    Raises:
        UserError: If a key is unknown or missing, or a value is not what it must be.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{name}: the configuration is a {type(values).__name__}, expected keys and values")
    if "hid" in values:
        values = _ours(values, name)
    else:
        known = [field.name for field in fields(HypernetConfig)]
        unneeded = {"task_width", "vocab_size"}
        if values.get("decoder") == "conv":
            unneeded |= {"rank", "max_size", "layout"}
        _check_keys(values, known, set(known) - unneeded, name)
    try:
        config = HypernetConfig(**values)
    except UserError as error:
        raise UserError(f"{name}: {' '.join(str(error).split())[:300]}") from error
    if not config.class_position_std <= 1000:
        raise UserError(f"{name}: hypernetwork: class_position_std must be at most 1000; 0.02 is usual")
    if not 1e-3 <= config.attention_gain <= 1000:
        raise UserError(f"{name}: hypernetwork: attention_gain must be between 0.001 and 1000; 1 is usual")
    sizes = {"max_shape": max(config.max_shape[:2]), "kernels of max_shape": max(config.max_shape[2:])}
    sizes |= {key: getattr(config, key, None) or 0 for key in _LARGEST.keys() - sizes.keys()}
    for key, size in sizes.items():
        if size > (most := _LARGEST[key]):
            raise UserError(f"{name}: hypernetwork: {key} must be at most {most:,}, got {shortened(size)}")
    return config


def _check_keys(values: Mapping[str, Any], known: Collection[str], wanted: Collection[str], name: str) -> None:
    """Refuse unknown and missing keys: weights fit without some of them, but predictions would be wrong."""
    if unknown := sorted(map(str, values.keys() - set(known))):
        raise UserError(
            f"{name}: unknown key(s) {', '.join(unknown)} in the configuration; known are {', '.join(known)}"
        )
    if missing := [key for key in known if key in wanted and key not in values]:
        raise UserError(
            f"{name}: the configuration lacks {', '.join(missing)}; give what the hypernetwork was trained with"
        )


def _ours(official: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A configuration of the official code under our keys; the graphs' convention is the intended one, ``msa``."""
    low_rank = bool(official.get("lora"))
    unneeded = {"task_embedding_dim"} if low_rank else {"task_embedding_dim", "lora_r", "max_ck_lora"}
    needed = {*_OFFICIAL_OPTIONS, *_OFFICIAL_FIXED} - unneeded
    _check_keys(official, [*_OFFICIAL_OPTIONS, *_OFFICIAL_FIXED, *_OFFICIAL_UNUSED, *_OUR_OPTIONS], needed, name)
    fixed = _OFFICIAL_FIXED | {"is_ghn2": False} | ({"use_1d_decoder": False} if low_rank else {})
    for key, value in fixed.items():
        if official.get(key, value) != value:
            raise UserError(f"{name}: {key} {official[key]} in the configuration is not supported, only {value}")
    values = {ours: official[key] for key, ours in _OFFICIAL_OPTIONS.items() if key in official}
    values |= {key: official[key] for key in _OUR_OPTIONS if key in official}
    return {**values, "decoder": "low_rank" if low_rank else "conv"}


def from_official(state: Mapping[str, Tensor], config: HypernetConfig) -> dict[str, Tensor]:
    """Rename the official code's keys to ours; what it never reads is left out, unknown keys stay as they are.

    Args:
        state: State dict of the official GHN-3, LoGAH or TAL.
        config: Decides which decoder's names are meant.
    """
    decoder = _CONV if config.decoder == "conv" else _LOW_RANK
    renamed = {}
    for key, tensor in state.items():
        stem, _, kind = key.rpartition(".")
        if stem in _ENCODER:
            stem = f"encoder.{_ENCODER[stem]}"
        elif stem in decoder:
            stem = f"decoder.{decoder[stem]}"
        elif stem.startswith("gnn.") and stem.count(".") > 1:
            _, layer, part = stem.split(".", 2)
            stem = f"encoder.blocks.{layer}.{_BLOCK.get(part, part)}"
        elif stem.startswith(_UNUSED):
            continue
        renamed[f"{stem}.{kind}"] = tensor
    return renamed
