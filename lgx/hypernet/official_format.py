"""Names of weights and options in the official code of GHN-3, LoGAH and TAL, and their names here.

Only names are shared with that code.
"""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from lgx.errors import UserError
from lgx.hypernet.config import HypernetConfig

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
_OWN_OPTIONS = ("convention", "class_position_std")
"""Options of this project that may be added; the official code has none for them."""


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
        official: The official code's options, ``hid``, ``lora_r`` and others; ``convention`` and
            ``class_position_std`` may be added.
        name: The file, for the message.

    Returns:
        Arguments of :class:`~lgx.hypernet.config.HypernetConfig`.
    """
    low_rank = bool(official.get("lora"))
    unneeded = {"task_embedding_dim"} if low_rank else {"task_embedding_dim", "lora_r", "max_ck_lora"}
    needed = {*_OPTIONS, *_FIXED_OPTIONS} - unneeded
    check_keys(official, [*_OPTIONS, *_FIXED_OPTIONS, *_OTHER_OPTIONS, *_OWN_OPTIONS], needed, name)
    fixed = _FIXED_OPTIONS | {"is_ghn2": False} | ({"use_1d_decoder": False} if low_rank else {})
    for key, value in fixed.items():
        if official.get(key, value) != value:
            raise UserError(f"{name}: {key} {official[key]} in the configuration is not supported, only {value}")
    values = {ours: official[key] for key, ours in _OPTIONS.items() if key in official}
    values |= {key: official[key] for key in _OWN_OPTIONS if key in official}
    return {**values, "decoder": "low_rank" if low_rank else "conv"}


def check_keys(values: Mapping[str, Any], known: Collection[str], wanted: Collection[str], name: str) -> None:
    """Refuse unknown and missing options. Weights load without some of them, but predictions would be wrong.

    Args:
        values: The options.
        known: Options that may be given.
        wanted: Those of them that must be given.
        name: The file, for the message.
    """
    if unknown := sorted(map(str, values.keys() - set(known))):
        raise UserError(
            f"{name}: unknown key(s) {', '.join(unknown)} in the configuration; known are {', '.join(known)}"
        )
    if missing := [key for key in known if key in wanted and key not in values]:
        raise UserError(
            f"{name}: the configuration lacks {', '.join(missing)}; give the values that the hypernetwork was trained "
            f"with"
        )
