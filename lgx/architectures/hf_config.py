"""Configurations of transformers as sizes and a text; imports transformers.

So only transformers defines the structure of a network. Code of a repository is never run: a type that transformers
does not know is refused.
"""

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from transformers import CONFIG_MAPPING, PretrainedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)
from transformers.utils import logging

from lgx.core.schema import shortened
from lgx.errors import UserError
from lgx.host.failures import foreign_errors

logging.disable_progress_bar()
logging.set_verbosity(logging.CRITICAL)  # it warns of tokens and heads that small trial networks do not have

_HIDDEN = (
    "intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "ffn_hidden_size", "decoder_ffn_dim", "d_inner", "dff",
)  # fmt: skip
"""Names of the number of neurons, as the types of models call it."""
_LIKE_WIDTH = ("word_embed_proj_dim", "embedding_size", "max_embed_dim", "pooler_hidden_size")
"""Further sizes that are the width, if the source's are; null in a text."""
_SIZES = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "max_position_embeddings", "vocab_size",
)  # fmt: skip
_OF_THE_FILE = frozenset({
    "architectures", "auto_map", "dtype", "id2label", "label2id", "lgx", "name_or_path", "num_labels", "output_past",
    "problem_type", "torch_dtype", "transformers_version", "use_return_dict",
})  # fmt: skip
"""Keys that say nothing about the network without its head: its task, the file."""
_NOT_OF_THE_NETWORK = frozenset({
    "chunk_size_feed_forward", "finetuning_task", "gradient_checkpointing", "initializer_range", "is_decoder",
    "is_encoder_decoder", "language_model", "max_length", "output_attentions", "output_hidden_states", "return_dict",
    "task_specific_params", "tokenizer_class", "use_cache",
})  # fmt: skip
"""Keys in which networks may differ that compute the same."""
Values = dict[str, Any]


def text_model_types() -> list[str]:
    """Types of models that transformers can build as language models or as classifiers of texts."""
    names = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES}
    return sorted(names & set(CONFIG_MAPPING.keys()))


def kinds_of(model_type: str) -> list[str]:
    """The kinds of networks that transformers has of a type."""
    names = {"text": MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, "language": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    return [kind for kind, types in names.items() if model_type in types]


def network_class(config: PretrainedConfig, kind: str) -> Any:
    """The class of a network in transformers.

    Args:
        config: Its configuration.
        kind: ``language`` for a language model, otherwise a classifier.
    """
    classes = MODEL_FOR_CAUSAL_LM_MAPPING if kind == "language" else MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    network = classes.get(type(config), None)
    if network is None:
        what = "language models" if kind == "language" else "classifiers of texts"
        raise UserError(f"architecture: transformers has no {what} of the type {config.model_type}")
    return network[0] if isinstance(network, tuple) else network


@cache
def default_values(model_type: str) -> Values:
    """The configuration of a type that no option changes."""
    if model_type not in text_model_types():
        raise UserError(
            f"architecture: {shortened(model_type)} is not the type of a language model or of a classifier of texts "
            f"that transformers knows, such as gpt2, llama or bert"
        )
    with foreign_errors(f"architecture of type {model_type}", "is not supported", "choose another type"):
        return _plain_values(CONFIG_MAPPING[model_type]())


def _plain_values(config: PretrainedConfig) -> Values:
    values: Values = json.loads(json.dumps(config.to_dict(), default=str))
    return values


@cache
def key_of(model_type: str, name: str) -> str | None:
    """The key of a size in the configurations of a type; None if it has no such size."""
    kind = CONFIG_MAPPING[model_type]
    key = kind.attribute_map.get(name, name)
    is_computed = isinstance(getattr(kind, key, None), property)
    return key if key in default_values(model_type) and not is_computed else None


def hidden_key(model_type: str) -> str | None:
    """The key of the number of neurons."""
    return next(filter(None, (key_of(model_type, name) for name in _HIDDEN)), None)


@cache
def keys_by_layer(model_type: str) -> tuple[str, ...]:
    """The keys of lists with a value for each layer, such as the kind of its attention."""
    depth = key_of(model_type, "num_hidden_layers") or "num_hidden_layers"
    try:
        five, seven = (_plain_values(CONFIG_MAPPING[model_type](**{depth: n})) for n in (5, 7))
    except Exception:  # a type without networks of these depths is refused where its structure is read
        five = {}
        seven = {}
    by_layer = [key for key in five if _has_length(five[key], 5) and _has_length(seven.get(key), 7)]
    return ("layer_types", "attention_window", *by_layer)


def _has_length(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def split_config(about: Mapping[str, Any], path: str) -> Values:
    """Divide a configuration into its sizes and all other values.

    Args:
        about: What ``config.json`` holds.
        path: The file, for messages.

    Returns:
        The fields of :class:`~lgx.architectures.hf.HFArchitecture`, without classes and kind; all other values are the
        text ``config``.
    """
    model_type = str(about.get("model_type"))
    default_values(model_type)
    if about.get("quantization_config"):
        raise UserError(f"{path}: the weights are quantized; give the weights of bf16, float16 or float32")
    kept = {key: value for key, value in about.items() if key not in _OF_THE_FILE}
    with foreign_errors(path, "transformers cannot read it", "copy the folder again"):
        config = CONFIG_MAPPING[model_type]
        values = _plain_values(config(**config._decode_special_floats(kept)))
    return {**_sizes(model_type, values, path), "config": config_text(values)}


def _sizes(model_type: str, values: Values, path: str) -> Values:
    def of(name: str, default: Any = None) -> Any:
        key = key_of(model_type, name)
        return default if key is None or values.get(key) is None else values[key]

    width, heads, tokens = of("hidden_size"), of("num_attention_heads"), of("vocab_size")
    sizes = {"hidden_size": width, "num_attention_heads": heads, "vocab_size": tokens}
    hidden = hidden_key(model_type)
    if hidden and values.get(hidden):
        sizes[hidden] = values[hidden]
    for name, size in sizes.items():
        if type(size) is not int or not 1 <= size <= 2**24:
            right = "one whole number for all layers, at most 2**24"
            raise UserError(f"{path}: {name} is {shortened(size)}, expected {right}")
    groups, head_dim = of("num_key_value_heads", heads), of("head_dim", 0)
    if type(groups) is not int or groups < 1 or heads % groups:
        raise UserError(f"{path}: num_key_value_heads {shortened(groups)} does not divide the {heads} heads")
    return {
        "depth": of("num_hidden_layers"), "embed_dim": width, "num_heads": heads, "heads_per_group": heads // groups,
        "head_dim": 0 if head_dim == width / heads else head_dim,
        "mlp_ratio": sizes.get(hidden or "", 4 * width) / width, "max_len": of("max_position_embeddings", 2048),
        "vocab_size": tokens,
    }  # fmt: skip


def is_dropout(key: str) -> bool:
    """Whether a key of a configuration is a rate of dropout."""
    return "dropout" in key or key.endswith(("pdrop", "layerdrop"))


def config_text(values: Mapping[str, Any]) -> str:
    """The values of a configuration that are no sizes, as a text; values equal to the type's own are left out.

    Tokens are always there: those of a type may lie outside of a small vocabulary.
    """
    model_type = str(values["model_type"])
    default = default_values(model_type)
    sizes = {key_of(model_type, name) for name in _SIZES} | {hidden_key(model_type)}
    width_key = key_of(model_type, "hidden_size") or ""
    like_width = {key for key in _LIKE_WIDTH if key in values and values[key] == values.get(width_key)}
    usual = {key: None if default.get(key) == default.get(width_key) else default.get(key) for key in like_width}
    kept = {
        key: None if key in like_width else value
        for key, value in values.items()
        if key not in sizes | _OF_THE_FILE and not key.startswith("_")
    }
    kept = {
        key: value
        for key, value in kept.items()
        if key == "model_type" or is_token(key) or key not in default or value != usual.get(key, default[key])
    }
    return _json_text(kept)


def is_token(key: str) -> bool:
    """Whether a key of a configuration names special tokens."""
    return key.endswith("_token_id")


@lru_cache(maxsize=1024)
def usual_text(text: str, depth: int, tokens: int) -> str:
    """The text ``config`` of an architecture, in its usual form.

    Lists for layers of another depth are left out, and lists and tokens that the type gives to such a network.

    Args:
        text: The text.
        depth: Layers of the network.
        tokens: Tokens of its vocabulary.

    Raises:
        UserError: If the text is no configuration.
    """
    try:
        values = json.loads(text)
        model_type = values["model_type"]
    except (ValueError, TypeError, KeyError):
        raise UserError(
            f"architecture: config must be a JSON object with a model_type, got {shortened(text)}"
        ) from None
    default_values(str(model_type))
    lists = {key: values.pop(key) for key in keys_by_layer(model_type) if key in values}
    lists = {key: value for key, value in lists.items() if _has_length(value, depth)}
    usual = lists_of(values, depth) if lists else {}
    lists = {key: value for key, value in lists.items() if value != usual.get(key)}
    special = {key: value for key, value in values.items() if is_token(key)}
    same = [key for key, value in special.items() if value == usual_token(model_type, key, tokens)]
    return _json_text({**{key: value for key, value in values.items() if key not in same}, **lists})


def usual_token(model_type: str, key: str, tokens: int) -> Any:
    """A special token of a type; those outside of a smaller vocabulary are its last token. GPT-2 pads with its end."""
    default = default_values(model_type)
    token = default.get(key)
    if token is None and (model_type, key) == ("gpt2", "pad_token_id"):
        token = default["eos_token_id"]
    return _at_most(token, tokens - 1)


def lists_of(values: Values, depth: int) -> Values:
    """The lists with a value for each layer of a network of a depth, by key."""
    model_type = values["model_type"]
    name = key_of(model_type, "num_hidden_layers") or "num_hidden_layers"
    others = {key: value for key, value in values.items() if key != "model_type"}
    full = _plain_values(CONFIG_MAPPING[model_type](**others, **{name: depth}))
    return {key: full[key] for key in keys_by_layer(model_type) if isinstance(full.get(key), list)}


def _json_text(values: Values) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def of_layers(text: str, depth: int, layers: tuple[int, ...]) -> str:
    """The text for some layers of a network of a depth."""
    values = json.loads(text)
    for key, value in lists_of(values, depth).items():
        values[key] = [value[layer] for layer in layers]
    return _json_text(values)


@lru_cache(maxsize=1024)
def structural_text(text: str) -> str:
    """The text without values in which networks may differ that compute the same, and without lists for layers."""
    values = json.loads(text)
    others = {*_NOT_OF_THE_NETWORK, *keys_by_layer(values["model_type"])}
    return _json_text({k: v for k, v in values.items() if k not in others and not is_dropout(k) and not is_token(k)})


def configuration(text: str, sizes: Mapping[str, Any], drop_rate: float | None = None) -> PretrainedConfig:
    """The configuration of a network.

    Args:
        text: Its values other than sizes.
        sizes: The fields of :class:`~lgx.architectures.hf.HFArchitecture`.
        drop_rate: Rate of every dropout; None leaves the rates of the text.
    """
    values = json.loads(usual_text(text, sizes["depth"], sizes["vocab_size"]))
    model_type = values.pop("model_type")
    default = default_values(model_type)
    width = sizes["embed_dim"]
    heads = sizes["num_heads"]
    tokens = sizes["vocab_size"]
    wanted = {
        "hidden_size": width,
        "num_hidden_layers": sizes["depth"],
        "num_attention_heads": heads,
        "num_key_value_heads": heads // sizes["heads_per_group"],
        "max_position_embeddings": sizes["max_len"],
        "vocab_size": tokens,
    }
    for name, size in wanted.items():
        key = key_of(model_type, name)
        if key:
            values[key] = size
    is_computed = isinstance(getattr(CONFIG_MAPPING[model_type], "head_dim", None), property)
    if not is_computed and (sizes["head_dim"] or key_of(model_type, "head_dim") == "head_dim"):
        values["head_dim"] = sizes["head_dim"] or width // heads
    hidden = hidden_key(model_type)
    if hidden:
        values[hidden] = round(width * sizes["mlp_ratio"])
    usual_width = default.get(key_of(model_type, "hidden_size") or "")
    widths = {
        key: values.get(key, None if default[key] == usual_width else default[key])
        for key in _LIKE_WIDTH
        if key in default
    }
    values |= {key: size or width for key, size in widths.items()}
    if drop_rate is not None:
        rates = {key for key in {*default, *values} if is_dropout(key) and isinstance(default.get(key), float | None)}
        values |= dict.fromkeys(rates, drop_rate)
        values |= {key: 0.0 for key in rates if "layerdrop" in key or "layer_dropout" in key}
    values |= {key: usual_token(model_type, key, tokens) for key in default if is_token(key) and key not in values}
    values["pad_token_id"] = _at_most(values.get("pad_token_id"), tokens - 1)  # an embedding has a row for it
    head = {} if sizes["kind"] == "language" else {"num_labels": sizes["num_classes"]}
    with foreign_errors(f"architecture of type {model_type}", "transformers refuses it", "choose other sizes"):
        return CONFIG_MAPPING[model_type](**values, **head)


def _at_most(token: Any, most: int) -> Any:
    """A token, several, or none, each of which a vocabulary has."""
    if isinstance(token, list):
        return [_at_most(each, most) for each in token]
    return min(token, most) if type(token) is int else token
