"""Tokenizers of transformers, and batches of their tokens."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors
from lgx.host.safety import read_json

_OPENAI = "encoder.json", "vocab.bpe"
"""GPT-2's files as OpenAI published them."""


def load_tokenizer(where: str | Path, vocab_size: int | None = None, option: str = "data.tokenizer") -> Any:
    """Load a tokenizer as transformers does; code in a folder is never executed.

    Texts are padded on the right. A tokenizer without a padding token pads with its end token, which the attention mask
    hides.

    Args:
        where: Folder of a network of transformers, folder with OpenAI's ``encoder.json`` and ``vocab.bpe``, or name on
            the Hugging Face hub.
        vocab_size: Number of tokens that the network knows; None: any.
        option: The option with which the user gave ``where``, for messages.

    Raises:
        UserError: If transformers cannot load it, or the network knows fewer tokens.
    """
    # If this is not set, tokenizers warn when loader processes are forked.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with extra("nlp", option):
        from transformers import AutoTokenizer, GPT2Tokenizer
    folder = Path(where)
    place = f"{option}: {where}"
    remedy = "give the folder of a network of transformers that contains its tokenizer, or its name on the hub"
    is_path = isinstance(where, Path) or where.startswith((".", "/")) or where.count("/") > 1  # no name has two
    if is_path and not folder.is_dir():
        raise UserError(f"{place} does not exist; {remedy}")
    with foreign_errors(place, "transformers cannot load its tokenizer", remedy):
        if folder.is_dir() and (folder / _OPENAI[0]).is_file():
            vocabulary, merges = (str(folder / name) for name in _OPENAI)
            tokenizer = GPT2Tokenizer(vocab=vocabulary, merges=merges)
        elif folder.is_dir():
            tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
        else:
            tokenizer = AutoTokenizer.from_pretrained(str(where), trust_remote_code=False)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise UserError(f"{place} has only special tokens, because its vocabulary is missing; {remedy}")
    size = size_of(tokenizer)
    if size > (vocab_size or size):
        raise UserError(
            f"{place} has {size} tokens, but the network knows {vocab_size}; give the network's own tokenizer, or its "
            f"number of tokens with data.vocab_size"
        )
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def size_of(tokenizer: Any) -> int:
    """One more than the largest token of a tokenizer."""
    return 1 + max(tokenizer.get_vocab().values(), default=-1)


def end_of(tokenizer: Any) -> int:
    """The token between documents: the end token, else the separator.

    Raises:
        UserError: If the tokenizer has neither.
    """
    token = tokenizer.sep_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    if token is None:
        raise UserError("data.tokenizer: it has no end token; name its eos_token in tokenizer_config.json")
    return int(token)


def description_of(tokenizer: Any) -> dict[str, Any]:
    """What the tokens of a text depend on, as plain values."""
    values: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    return {key: value for key, value in values.items() if key not in ("padding", "truncation")}  # of the last call


def config_size(place: str | Path, *keys: str) -> int | None:
    """The smallest of the sizes called ``keys`` that the configurations in a tokenizer's folder have, if any."""
    files = [Path(place, name) for name in ("config.json", "tokenizer_config.json")]
    values = [read_json(path, "copy it again from its model") for path in files if path.is_file()]
    sizes = [each[key] for each in values if isinstance(each, dict) for key in keys if key in each]
    return min((size for size in sizes if type(size) is int and size > 1), default=None)


def padded(tokenizer: Any, texts: Sequence[dict[str, Any]]) -> Tensor:
    """Pad tokenized texts to the longest of them, see :class:`~lgx.core.batch.Batch`.

    Args:
        tokenizer: The tokenizer.
        texts: ``input_ids`` of each text and, if the tokenizer gives them, ``token_type_ids``.

    Returns:
        Token ids, attention mask and token types, int64, (B, 3, N).
    """
    columns = {key: [text[key] for text in texts] for key in texts[0]}
    rows = tokenizer.pad(columns, return_attention_mask=True, return_tensors="pt")
    ids = rows["input_ids"].long()
    types = rows["token_type_ids"].long() if "token_type_ids" in rows else torch.zeros_like(ids)
    return torch.stack([ids, rows["attention_mask"].long(), types], dim=1)
