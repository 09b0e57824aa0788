"""Tokenizers, from local files or the hub, and texts as token ids.

A tokenizer is GPT-2's, or any that a folder describes in ``tokenizer.json``, which is data: no code of a model's folder
is executed. Texts are tokenized once, when a data module is set up, and held in memory as one array of ids.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from data_modules.files.errors import guarded
from data_modules.files.tables import read_lines
from data_modules.splits import Indices
from data_modules.text.rows import Row
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.hub import hub_or_cache
from lgx.host.safety import read_json

END = "<|endoftext|>"
_FILES = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))  # OpenAI's names, transformers' names
DESCRIPTION = "tokenizer.json"
"""The file that describes any tokenizer of the package ``tokenizers``."""
_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def load_tokenizer(where: str | Path, vocab_size: int | None, option: str = "data.tokenizer") -> Any:
    """Load a tokenizer of transformers.

    Special tokens that are written in a text, e.g. ``<|endoftext|>``, become ordinary tokens. GPT-2's files go first
    if they are beside a ``tokenizer.json``.

    Args:
        where: Folder with GPT-2's ``encoder.json`` and ``vocab.bpe`` (or ``vocab.json`` and ``merges.txt``), folder of
            any model with ``tokenizer.json``, or, as a string, a name on the Hugging Face hub of a GPT-2, e.g.
            ``openai-community/gpt2``.
        vocab_size: Number of tokens that the model knows; None: those of the tokenizer. A ``tokenizer.json`` may have
            fewer: models pad their vocabulary to round numbers.
        option: The option with which the user gave ``where``, for messages.

    Raises:
        UserError: If there is none, its files are damaged or do not belong together, or its size is another one; the
            sentence names the file and, in the list of merges, the line.
    """
    # If this is not set, tokenizers warn when loader processes are forked.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with extra("nlp", option):
        from transformers import GPT2Tokenizer
    folder = Path(where)
    names = next((pair for pair in _FILES if (folder / pair[0]).is_file()), None)
    if (folder / DESCRIPTION).is_file() and (names is None or not _is_gpt2(folder / names[0])):
        return _described(folder, vocab_size, option)
    if names is not None:
        vocabulary, merges = _read_vocabulary(folder / names[0], option), _read_merges(folder / names[1], option)
        source = str(folder / names[0])
        tokenizer = guarded(
            lambda: GPT2Tokenizer(vocab=vocabulary, merges=merges, split_special_tokens=True),
            f"{option}: {folder / names[1]}",
            f"use the file that belongs to {names[0]}",
        )
    elif isinstance(where, Path) or folder.exists() or where.startswith((".", "/")):
        raise UserError(
            f"{option}: {folder} holds no encoder.json, vocab.json or {DESCRIPTION}; give the folder with GPT-2's "
            f"encoder.json and vocab.bpe or with a {DESCRIPTION}, or a name on the hub such as openai-community/gpt2"
        )
    else:
        source = str(where)
        remedy = "give the folder with GPT-2's encoder.json and vocab.bpe"
        try:
            with hub_or_cache(f"{option}: {where}", remedy):
                tokenizer = GPT2Tokenizer.from_pretrained(str(where), split_special_tokens=True)
                if len(tokenizer) <= 1:  # transformers makes a tokenizer without words if it finds no files
                    raise OSError(f"{where} has no vocabulary")
        except (OSError, ValueError) as error:
            raise UserError(
                f"{option}: {where} is not a folder and could not be loaded from the Hugging Face hub "
                f"({str(error).splitlines()[0][:120]})"
            ) from error
    vocab_size = vocab_size or len(tokenizer)
    if len(tokenizer) != vocab_size or tokenizer.convert_tokens_to_ids(END) != vocab_size - 1:
        raise UserError(
            f"{option}: {source} has {len(tokenizer)} tokens, but vocab_size is {vocab_size}, and the last token "
            f"must be {END}; give the vocabulary of the model"
        )
    return tokenizer


def pad_of(tokenizer: Any) -> int:
    """The token that pads: the tokenizer's own, else its end token, else its last token."""
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id, size_of(tokenizer) - 1)
    return int(next(token for token in known if token is not None))


def end_of(tokenizer: Any) -> int:
    """The token between documents: the tokenizer's end token, else its separator."""
    token = tokenizer.sep_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    if token is None:
        raise UserError("data.tokenizer: it has no end token; name its eos_token in tokenizer_config.json")
    return int(token)


@lru_cache
def pad_in(folder: Path, vocab_size: int) -> int:
    """The token that pads texts of the tokenizer in a folder."""
    return pad_of(load_tokenizer(folder, vocab_size)) if (folder / DESCRIPTION).is_file() else vocab_size - 1


@lru_cache
def size_in(folder: Path) -> int:
    """Number of tokens of the tokenizer in a folder."""
    return size_of(load_tokenizer(folder, None))


def config_size(folder: Path, *keys: str) -> int | None:
    """The first of the sizes called ``keys`` that the ``config.json`` in a folder has, if any."""
    path = folder / "config.json"
    known = read_json(path, "copy it again from its model") if path.is_file() else None
    sizes = [known.get(key) for key in keys] if isinstance(known, dict) else []
    return next((size for size in sizes if type(size) is int and size > 1), None)


def size_of(tokenizer: Any) -> int:
    """One more than the largest token of a tokenizer."""
    return 1 + max(tokenizer.get_vocab().values(), default=-1)


def _is_gpt2(path: Path) -> bool:
    found = read_json(path, "copy the vocabulary again")
    return isinstance(found, dict) and found.get(END) == len(found) - 1


def _described(folder: Path, vocab_size: int | None, option: str) -> Any:
    """The tokenizer of a ``tokenizer.json``; the files beside it name the special tokens."""
    from transformers import PreTrainedTokenizerFast

    path, special = folder / DESCRIPTION, dict[str, str]()
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        about = read_json(folder / name, "copy it again") if (folder / name).is_file() else {}
        for key in _SPECIAL if isinstance(about, dict) else ():
            token = about.get(key)
            token = token.get("content") if isinstance(token, dict) else token
            special |= {key: token} if isinstance(token, str) else {}
    tokenizer = guarded(
        lambda: PreTrainedTokenizerFast(tokenizer_file=str(path), split_special_tokens=True, **special),
        f"{option}: {path}",
        "copy it again from its model",
    )
    if not 0 < (size := size_of(tokenizer)) <= (vocab_size or size):
        raise UserError(
            f"{option}: {path} has {size} tokens, but vocab_size is {vocab_size}; give the model's number of tokens "
            f"with data.vocab_size, or the tokenizer of the model"
        )
    return tokenizer


def _read_vocabulary(path: Path, option: str) -> dict[str, int]:
    from tokenizers.pre_tokenizers import ByteLevel

    try:
        found = read_json(path, "copy GPT-2's vocabulary again")
    except UserError as error:
        raise UserError(f"{option}: {error}") from error
    numbers: list[Any] = list(found.values()) if isinstance(found, dict) else [None]
    if not all(type(number) is int for number in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise UserError(f"{option}: {path} is not a vocabulary: tokens must have the numbers 0, 1, 2, ... once each")
    missing = [token for token in (END, *sorted(ByteLevel.alphabet())) if token not in found]
    if missing:
        raise UserError(f"{option}: {path} lacks the token {missing[0]!r}; use GPT-2's vocabulary")
    vocabulary: dict[str, int] = found
    return vocabulary


def _read_merges(path: Path, option: str) -> list[tuple[str, str]]:
    """Read the list of merges; its first line may be a comment."""
    try:
        lines = read_lines(path)
    except UserError as error:
        raise UserError(f"{option}: {path} cannot be read ({error}); copy GPT-2's merges again") from error
    merges = []
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise UserError(f"{option}: {path}, line {number}: expected two tokens with a space between them")
        merges.append((left, right))
    return merges


@dataclass(frozen=True)
class Texts:
    """Tokenized texts of one split.

    Attributes:
        ids: Token ids of all texts, one text after the other, int32.
        offsets: Position in ``ids`` at which each of the N texts begins, and at which the last one ends, int64,
            (N + 1,).
        labels: Class indices, int64, (N,).
    """

    ids: NDArray[np.int32]
    offsets: Indices
    labels: Indices

    @property
    def lengths(self) -> Indices:
        """Tokens of each text, (N,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        begin, end = self.offsets[index : index + 2]
        return torch.from_numpy(self.ids[begin:end].astype(np.int64)), int(self.labels[index])

    def take(self, indices: Indices) -> "Texts":
        """The texts at ``indices``."""
        parts = [self.ids[self.offsets[i] : self.offsets[i + 1]] for i in indices.tolist()]
        return Texts.of(parts, self.labels[indices])

    @classmethod
    def of(cls, texts: Sequence[Any], labels: Any) -> "Texts":
        """Concatenate texts, each a sequence of ids."""
        offsets = np.cumsum([0, *(len(text) for text in texts)], dtype=np.int64)
        ids = np.concatenate([np.asarray(text, np.int32) for text in texts]) if len(texts) else np.empty(0, np.int32)
        return cls(ids, offsets, np.asarray(labels, np.int64))


def tokenize(rows: Sequence[Row], tokenizer: Any, max_len: int) -> tuple[Texts, int]:
    """Turn rows into token ids; also count the texts that were cut.

    Texts get the special tokens of the tokenizer's own template, e.g. ``[CLS] a [SEP] b [SEP]``. GPT-2 has none. So the
    two texts of a pair are joined by a line break, which a sentence does not contain. A single text is cut at
    ``max_len`` tokens; of a pair the longer text is cut first.
    """
    is_pair = bool(rows) and len(rows[0].texts) == 2
    if special := tokenizer.num_special_tokens_to_add(pair=is_pair):
        if special >= max_len:
            raise UserError(f"data.max_len: {special} tokens of the template leave no room for a text in {max_len}")
        return _in_template(rows, tokenizer, max_len)
    encoded = [encode(tokenizer, list(texts)) for texts in zip(*(row.texts for row in rows), strict=True)]
    ((separator,),) = encode(tokenizer, ["\n"])
    joined: list[list[int]] = []
    cut = 0
    for parts in map(list, zip(*encoded, strict=True)):
        length = sum(len(part) for part in parts) + len(parts) - 1
        if length > max_len:
            cut += 1
            parts = _shorten(parts, max_len - len(parts) + 1)
        joined.append(parts[0] if len(parts) == 1 else [*parts[0], separator, *parts[1]])
    return Texts.of(joined, [row.label for row in rows]), cut


def _in_template(rows: Sequence[Row], tokenizer: Any, max_len: int) -> tuple[Texts, int]:
    """See :func:`tokenize`."""
    ids = encode(tokenizer, *map(list, zip(*(row.texts for row in rows), strict=True)), add_special_tokens=True)
    if long := [number for number, text in enumerate(ids) if len(text) > max_len]:
        columns = map(list, zip(*(rows[number].texts for number in long), strict=True))
        cut = encode(tokenizer, *columns, add_special_tokens=True, truncation="longest_first", max_length=max_len)
        for number, text in zip(long, cut, strict=True):
            ids[number] = text
    return Texts.of(ids, [row.label for row in rows]), len(long)


def encode(tokenizer: Any, *texts: list[str], add_special_tokens: bool = False, **options: Any) -> list[list[int]]:
    """Token ids of texts, or of pairs of texts in two lists; special tokens in a text are ordinary characters."""
    options |= {"return_attention_mask": False, "split_special_tokens": True, "verbose": False}
    ids: list[list[int]] = tokenizer(*texts, add_special_tokens=add_special_tokens, **options)["input_ids"]
    return ids


def _shorten(parts: Sequence[list[int]], room: int) -> list[list[int]]:
    """Cut texts at the end. Each text of a pair may keep half of ``room``, and more if the other needs less."""
    if len(parts) == 1:
        return [parts[0][:room]]
    first, second = parts
    kept = min(len(second), max(room // 2, room - len(first)))
    return [first[: room - kept], second[:kept]]
