"""Configurations of transformers as sizes and a form; imports transformers.

A form is a text: the type of a model (``llama``), and the values of its configuration, other than sizes, that differ
from the type's own (``llama+rms_norm_eps=1e-05+tie_word_embeddings=true``). So only transformers defines the structure
of a network. Code of a repository is never run: a type that transformers does not know is refused.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
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

logging.set_verbosity_error()  # it warns of tokens and heads that small trial networks do not have

_HIDDEN = (
    "intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "ffn_hidden_size", "decoder_ffn_dim", "d_inner", "dff",
)  # fmt: skip
"""Names of the number of neurons, as the types of models call it."""
_LIKE_WIDTH = ("word_embed_proj_dim", "embedding_size", "max_embed_dim")
"""Further sizes that are the width, if the source's are."""
_SIZES = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "max_position_embeddings", "vocab_size", "pad_token_id", "layer_types",
)  # fmt: skip
_NOT_OF_THE_NETWORK = frozenset({
    "architectures", "auto_map", "chunk_size_feed_forward", "cls_token_id", "decoder_start_token_id",
    "dtype", "finetuning_task", "gradient_checkpointing", "id2label", "initializer_range", "is_decoder",
    "is_encoder_decoder", "label2id", "language_model", "lgx", "mask_token_id", "max_length", "model_type",
    "name_or_path", "num_labels", "output_attentions", "output_hidden_states", "output_past", "position_embedding_type",
    "problem_type", "return_dict", "sep_token_id", "summary_first_dropout", "task_specific_params", "tokenizer_class",
    "torch_dtype", "transformers_version", "use_cache", "use_return_dict",
})  # fmt: skip
"""Keys that say nothing about the network: its task, its tokens, its training, the file."""
_COUNTS = re.compile(r"num_|n_|.*(layers|experts|heads|blocks)$")
_MOST = 4096
Values = dict[str, Any]


def known_types() -> list[str]:
    """Types of models that transformers can build as language models or as classifiers of texts."""
    names = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES}
    return sorted(names & set(CONFIG_MAPPING.keys()))


def kinds_of(model_type: str) -> list[str]:
    """The kinds of networks that transformers has of a type."""
    names = {"text": MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, "language": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    return [kind for kind, known in names.items() if model_type in known]


def network_class(config: PretrainedConfig, kind: str) -> Any:
    """The class of a network in transformers.

    Args:
        config: Its configuration.
        kind: ``language`` for a language model, ``text`` for a classifier.
    """
    classes = MODEL_FOR_CAUSAL_LM_MAPPING if kind == "language" else MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    found = classes.get(type(config), None)
    if found is None:
        what = "language models" if kind == "language" else "classifiers of texts"
        raise UserError(f"architecture: transformers has no {what} of the type {config.model_type}")
    return found[0] if isinstance(found, tuple) else found


@cache
def default_values(model_type: str) -> Values:
    """The configuration of a type that no option changes."""
    if model_type not in known_types():
        raise UserError(
            f"architecture: {shortened(model_type)} is not the type of a language model or of a classifier of texts "
            f"that transformers knows, such as gpt2, llama or bert"
        )
    with foreign_errors(f"architecture of type {model_type}", "is not supported", "choose another type"):
        return dict(CONFIG_MAPPING[model_type]().to_dict())


@cache
def key_of(model_type: str, name: str) -> str | None:
    """The key of a size in the configurations of a type; None if it has no such size."""
    kind = CONFIG_MAPPING[model_type]
    key = kind.attribute_map.get(name, name)
    return key if key in default_values(model_type) else None


def hidden_key(model_type: str) -> str | None:
    """The key of the number of neurons."""
    return next((key for name in _HIDDEN if (key := key_of(model_type, name))), None)


def split_config(about: Mapping[str, Any], place: str) -> Values:
    """Divide a configuration into its sizes and its form.

    Args:
        about: What ``config.json`` holds.
        place: The file, for messages.

    Returns:
        The fields of :class:`~lgx.architectures.hf.HFArchitecture`, without classes and kind; the form is one of them.
    """
    model_type = str(about.get("model_type"))
    default = default_values(model_type)
    if about.get("quantization_config"):
        raise UserError(f"{place}: the weights are quantized; give the weights of bf16, float16 or float32")
    own = {key: value for key, value in about.items() if key not in _NOT_OF_THE_NETWORK}
    with foreign_errors(place, "transformers cannot read it", "copy the folder again"):
        config = CONFIG_MAPPING[model_type](**own)
        values = json.loads(json.dumps(config.to_dict()))
    sizes = _sizes(model_type, values, place)
    skipped = {key for name in _SIZES if (key := key_of(model_type, name))} | {hidden_key(model_type)}
    form: Values = {}
    for key, value in values.items():
        is_like_width = key in _LIKE_WIDTH and value == sizes["embed_dim"]
        if (
            key not in default
            or key in skipped
            or key in _NOT_OF_THE_NETWORK
            or key.startswith("_")
            or is_like_width
            or is_dropout(key)
        ):
            continue
        usual = _at_most(default[key], sizes["vocab_size"] - 1) if key.endswith("_token_id") else default[key]
        if value != json.loads(json.dumps(usual)):
            form[key] = value
    fields = {**sizes, "form": form_text(model_type, form)}
    _check_layer_types(fields, values, place)
    return fields


def _sizes(model_type: str, values: Values, place: str) -> Values:
    def of(name: str, default: Any = None) -> Any:
        key = key_of(model_type, name)
        return default if key is None or values.get(key) is None else values[key]

    width, heads, tokens = of("hidden_size"), of("num_attention_heads"), of("vocab_size")
    sizes = {"hidden_size": width, "num_attention_heads": heads, "vocab_size": tokens}
    if (hidden := hidden_key(model_type)) and values.get(hidden):
        sizes[hidden] = values[hidden]
    for name, size in sizes.items():
        if type(size) is not int or not 1 <= size <= 2**24:
            known = "one whole number for all layers, at most 2**24"
            raise UserError(f"{place}: {name} is {shortened(size)}, expected {known}")
    groups, head_dim = of("num_key_value_heads", heads), of("head_dim", 0)
    if type(groups) is not int or groups < 1 or heads % groups:
        raise UserError(f"{place}: num_key_value_heads {shortened(groups)} does not divide the {heads} heads")
    pad = of("pad_token_id")
    if pad is None:
        end = values.get("eos_token_id")
        pad = end if type(end) is int else tokens - 1
    return {
        "depth": of("num_hidden_layers"), "embed_dim": width, "num_heads": heads, "heads_per_group": heads // groups,
        "head_dim": 0 if head_dim == width / heads else head_dim,
        "mlp_ratio": sizes.get(hidden or "", 4 * width) / width, "max_len": of("max_position_embeddings", 2048),
        "vocab_size": tokens, "pad_id": pad,
    }  # fmt: skip


def _check_layer_types(fields: Values, values: Values, place: str) -> None:
    """Refuse layers whose kinds are not those that the type gives to a network of this depth."""
    if (types := values.get("layer_types")) is None:
        return
    built = configuration(fields["form"], {**fields, "num_classes": 2, "kind": "text"}).to_dict()
    if built.get("layer_types") != types:
        raise UserError(f"{place}: its layer_types are not the usual ones of {values['model_type']}, so it is not read")


def is_dropout(key: str) -> bool:
    """Whether a key of a configuration is a rate of dropout."""
    return "dropout" in key or key.endswith(("pdrop", "layerdrop"))


def form_text(model_type: str, values: Values) -> str:
    """Write a form; the values are in alphabetical order."""
    return "+".join([model_type, *(f"{key}={_written(value)}" for key, value in sorted(values.items()))])


def _written(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w.-]*", value) and value not in ("true", "false", "null"):
        return value
    return json.dumps(value, separators=(";", ":")).replace(",", "\\u002c").replace("+", "")


@cache
def parse_form(form: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Parse a form.

    Returns:
        The type of the model, and the values of the configuration, each as JSON.
    """
    model_type, *parts = re.split(r"\+(?=[A-Za-z_]\w*=)", form)
    default, found = default_values(model_type), {}
    for part in parts:
        key, _, text = part.partition("=")
        if key in _NOT_OF_THE_NETWORK or (key not in default and key != "head_dim"):
            raise UserError(f"architecture: form {shortened(form)}: {model_type} has no value {shortened(key)}")
        try:
            value = json.loads(text.replace(";", ","))
        except ValueError:
            value = text
        if type(value) is int and _COUNTS.match(key) and value > _MOST:
            raise UserError(f"architecture: form: {key} must be at most {_MOST:,}, got {value}")
        found[key] = json.dumps(value)
    return model_type, tuple(sorted(found.items()))


def configuration(form: str, sizes: Mapping[str, Any], drop_rate: float = 0.0) -> PretrainedConfig:
    """The configuration of a network.

    Args:
        form: The form.
        sizes: The fields of :class:`~lgx.architectures.hf.HFArchitecture`.
        drop_rate: Rate of every dropout.
    """
    model_type, values = parse_form(form)
    given = {key: json.loads(value) for key, value in values}
    default, width, heads = default_values(model_type), sizes["embed_dim"], sizes["num_heads"]
    wanted = {
        "hidden_size": width,
        "num_hidden_layers": sizes["depth"],
        "num_attention_heads": heads,
        "num_key_value_heads": heads // sizes["heads_per_group"],
        "max_position_embeddings": sizes["max_len"],
        "vocab_size": sizes["vocab_size"],
    }
    given |= {key: size for name, size in wanted.items() if (key := key_of(model_type, name))}
    if sizes["head_dim"] or key_of(model_type, "head_dim") == "head_dim":
        given["head_dim"] = sizes["head_dim"] or width // heads
    if hidden := hidden_key(model_type):
        given[hidden] = round(width * sizes["mlp_ratio"])
    own_width = default.get(key_of(model_type, "hidden_size") or "")
    given |= {key: width for key in _LIKE_WIDTH if key in default and key not in given and default[key] == own_width}
    given |= {key: drop_rate for key, value in default.items() if is_dropout(key) and isinstance(value, float | None)}
    given |= {key: 0.0 for key in default if "layerdrop" in key or "layer_dropout" in key}
    given["pad_token_id"] = sizes["pad_id"]
    for key in (key for key in default if key.endswith("_token_id")):  # small trial networks know few tokens
        given[key] = _at_most(given.get(key, default[key]), sizes["vocab_size"] - 1)
    classes = {"num_labels": sizes["num_classes"]} if sizes["kind"] == "text" else {}
    with foreign_errors(f"architecture of form {form}", "transformers refuses it", "choose other sizes"):
        try:
            return CONFIG_MAPPING[model_type](**given, **classes, use_cache=False)
        except Exception as error:
            raise error.__cause__ or error from None  # the cause says which value is wrong


def _at_most(token: Any, most: int) -> Any:
    """A token, several, or none, each of which a vocabulary has."""
    if isinstance(token, list):
        return [_at_most(each, most) for each in token]
    return min(token, most) if type(token) is int else token
