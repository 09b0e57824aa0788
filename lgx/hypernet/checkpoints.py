"""Loads hypernetworks of this project, and those of the official GHN-3, LoGAH and TAL code.

Only names of weights and options are shared with that code.
"""

from argparse import Namespace
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safetensors_files import read_safetensors
from lgx.artifacts.safety import check_weights
from lgx.artifacts.source_names import FINAL_LEARNGENE
from lgx.artifacts.sources import is_learngene
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
"""GHN-3's code stores the embeddings of degrees and distances in its first block; released files have them outside."""
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
_LOW_RANK = {"decoder.mlp.fc.0": "fc1", "decoder.mlp.fc.2": "fc2", "decoder.mlp.fc.4": "fc3", "decoder.l2": "basis"}
_UNUSED = ("decoder.l1", "decoder.seq", "decoder_1d.0", "bias_class.1")
"""Parameters of the official LoGAH that it never uses (``seq`` is a second name of ``l2``)."""

_OPTIONS = {
    "hid": "width", "layers": "layers", "heads": "heads", "max_shape": "max_shape", "num_classes": "num_classes",
    "lora_r": "rank", "max_ck_lora": "max_size", "task_embedding_dim": "task_width",
}  # fmt: skip
_FIXED_OPTIONS = {"ve": True, "weight_norm": True, "layernorm": True}
"""Options of every released hypernetwork; no other value is supported."""
_OTHER_OPTIONS = ("lora", "use_1d_decoder", "is_ghn2", "hypernet", "decoder", "pretrained")
"""Options that choose the decoder, or that have no effect in GHN-3."""
_ADDED_OPTION = "convention"
"""The option of this project that may be added; the official code has none for it."""
_FORMER_OPTION = "class_position_std"
"""An option of lgx 0.3; a file with another value than 0 is refused."""


def rename_official_weights(state: Mapping[str, Tensor], config: HypernetConfig) -> dict[str, Tensor]:
    """Rename the official code's weights. Weights that it never uses are dropped; unknown names are kept.

    Args:
        state: State dict of the official GHN-3, LoGAH or TAL.
        config: Decides which decoder the names belong to.

    Returns:
        State dict of a :class:`~lgx.hypernet.hypernet.Hypernet`, if the weights are complete.
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


def rename_official_options(official: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Convert the official code's options. The graphs' convention is the intended one, ``msa``, if none is given.

    Args:
        official: The official code's options, ``hid``, ``lora_r`` and others; ``convention`` may be added.
        name: The file, for the message.

    Returns:
        Arguments of :class:`~lgx.hypernet.hypernet.HypernetConfig`.
    """
    low_rank = bool(official.get("lora"))
    unneeded = {"task_embedding_dim"} if low_rank else {"task_embedding_dim", "lora_r", "max_ck_lora"}
    needed = {*_OPTIONS, *_FIXED_OPTIONS} - unneeded
    check_keys(official, [*_OPTIONS, *_FIXED_OPTIONS, *_OTHER_OPTIONS, _ADDED_OPTION], needed, name)
    fixed = _FIXED_OPTIONS | {"is_ghn2": False} | ({"use_1d_decoder": False} if low_rank else {})
    for key, value in fixed.items():
        if official.get(key, value) != value:
            raise UserError(f"{name}: {key} {official[key]} in the configuration is not supported, only {value}")
    values = {ours: official[key] for key, ours in _OPTIONS.items() if key in official}
    values |= {_ADDED_OPTION: official[_ADDED_OPTION]} if _ADDED_OPTION in official else {}
    return {**values, "decoder": "low_rank" if low_rank else "conv"}


def check_keys(values: Mapping[str, Any], valid: Collection[str], required: Collection[str], name: str) -> None:
    """Refuse unknown and missing options. Weights load without some of them, but predictions would be wrong.

    Args:
        values: The options.
        valid: Options that may be given.
        required: Those of them that must be given.
        name: The file, for the message.
    """
    unknown = sorted(map(str, values.keys() - set(valid)))
    if unknown:
        raise UserError(
            f"{name}: unknown key(s) {', '.join(unknown)} in the configuration; known are {', '.join(valid)}"
        )
    missing = [key for key in valid if key in required and key not in values]
    if missing:
        raise UserError(
            f"{name}: the configuration lacks {', '.join(missing)}; give the values that the hypernetwork was trained "
            f"with"
        )


def load(
    source: str | Path | Mapping[str, Tensor], config: HypernetConfig | Mapping[str, Any] | None = None
) -> Hypernet:
    """Load a hypernetwork.

    The configuration must be given or stored with the weights; it is never guessed from them.

    Args:
        source: A learngene, a safetensors file, a torch checkpoint of tensors and plain types, or a state dict. The
            weights may have the names of this project or of the official GHN-3, LoGAH and TAL code. The files that were
            released with GHN-3 are joblib pickles, which can run code when they are read. Convert one that you trust:
            ``safetensors.torch.save_file(joblib.load("ghn3xlm16.pt"), "ghn3xlm16.safetensors")``.
        config: Its configuration, with the keys of :class:`~lgx.hypernet.HypernetConfig` or of the official code
            (``hid``, ``lora_r``, ...). By default it is read from the file: from ``hypernet`` in a file of this
            project, from ``config`` in an official one.

    Returns:
        The hypernetwork in eval mode.
    """
    name = "the given weights" if isinstance(source, Mapping) else str(source)
    state, stored = (source, None) if isinstance(source, Mapping) else _read(name)
    chosen = config if config is not None else stored
    if chosen is None:
        raise UserError(f"{name}: does not store the hypernetwork's configuration; give it with --config FILE.json")
    if not isinstance(state, Mapping) or not all(isinstance(k, str) for k in state):
        raise UserError(f"{name}: contains no state dict of tensors")
    is_official = "embed.weight" in state
    check_weights(state, name)
    if not isinstance(chosen, HypernetConfig):
        chosen = read_config(chosen, name)
    hypernet = Hypernet(chosen)
    try:
        hypernet.load_state_dict(rename_official_weights(state, chosen) if is_official else dict(state))
    except RuntimeError as error:
        differ = " ".join(str(error).partition("\n")[2].split())
        raise UserError(f"{name}: does not fit the configuration; these weights differ: {differ[:300]}") from error
    return hypernet.eval()


def _read(name: str) -> tuple[Any, Any]:
    """State dict and stored configuration of a file, not checked; the configuration is None if there is none."""
    if is_learngene(name):
        learngene = Learngene.load(name)
        if learngene.hypernet is None:
            raise UserError(f"{name}: a learngene of {learngene.method}, not a hypernetwork")
        return learngene.weights, learngene.hypernet
    if name.endswith(".safetensors"):
        return read_safetensors(name)[0], None
    checkpoint = load_checkpoint(name, [Namespace])  # the official code stores its options as a Namespace
    if "lgx" in checkpoint:
        raise UserError(f"{name}: a checkpoint of a run; give the {FINAL_LEARNGENE} of its folder")
    return checkpoint.get("state_dict", checkpoint), checkpoint.get("hypernet", checkpoint.get("config"))


def read_config(values: Any, name: str) -> HypernetConfig:
    """Check the configuration that a file stores.

    Args:
        values: Options with the keys of :class:`~lgx.hypernet.HypernetConfig` or of the official code (``hid``,
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
        keys = [field.name for field in fields(HypernetConfig)]
        unneeded = {"task_width", "vocab_size"}
        if values.get("decoder") == "conv":
            unneeded |= {"rank", "max_size", "layout"}
        values = {key: value for key, value in values.items() if (key, value) != (_FORMER_OPTION, 0)}
        check_keys(values, keys, set(keys) - unneeded, name)
    try:
        return HypernetConfig(**values)
    except UserError as error:
        raise UserError(f"{name}: {' '.join(str(error).split())[:300]}") from error
