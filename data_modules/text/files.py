"""``TextFiles``: plain texts of a user, for language: each token is predicted from those before it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from data_modules.base import Split
from data_modules.files.errors import guarded
from data_modules.loading.fingerprint import spread
from data_modules.splits import Indices
from data_modules.text.module import OwnTexts, TokenSet
from data_modules.text.rows import library, read_files, split_files
from data_modules.text.tokenizer import description_of, end_of, padded
from lgx.core.batch import Batch
from lgx.core.task import IGNORE_TOKEN, PERPLEXITY, Task
from lgx.errors import UserError
from lgx.host.cache import cache_root

_REMEDY = "remove it, then it is made again"


@dataclass(frozen=True)
class Sequences:
    """Sequences of tokens, each with the next token of every position.

    Attributes:
        rows: N + 1 tokens of each sequence, of the last one perhaps fewer, as a data set of the package datasets. The
            last token of a sequence is the first one of the next, so that every token but the very first one is
            predicted once.
        bytes_per_token: UTF-8 bytes of the documents for each predicted token.
    """

    rows: Any
    bytes_per_token: float

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[list[int], list[int]]:
        tokens = self.rows[int(index)]["tokens"]
        return tokens[:-1], tokens[1:]


@dataclass(eq=False, repr=False)
class TextFiles(OwnTexts, TokenSet[Sequences]):
    """Plain texts in files, for tasks of the kind ``language``: each token is predicted from those before it.

    Documents are the parts of a ``.txt`` file between empty lines, or the rows of ``.jsonl``, ``.parquet``, ``.csv`` or
    ``.tsv`` files; gzip may compress them. A word in a path names its split: ``val.jsonl``, ``test/a.txt``,
    ``train-00000-of-00002.parquet``. Without files for validation or test, ``val_fraction`` of the training documents
    is held out for each.

    Texts are tokenized once, into lgx's cache, and may be larger than the memory. Each document begins with
    the tokenizer's end token. Documents follow one another in sequences of ``max_len`` tokens, and tokens attend to the
    document before theirs. Training leaves out the last, incomplete sequence. Evaluation predicts every token of a
    split once, and its bits per byte count the UTF-8 bytes of the documents. An example is a sequence, also for
    ``limit_train``.

    Args:
        tokenizer: Folder of the network of transformers with its tokenizer. Code in a folder is never executed.
        max_len: Tokens of a sequence; default: 128, or the positions in ``config.json`` beside the tokenizer if fewer.
        text: Key or column of the texts.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.info = self.describe(self.token_count, kind="language", metric=PERPLEXITY)

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup`, without the number of examples and of bytes."""
        val, test = (self._splits[s].bytes_per_token if s in self._splits else 0.0 for s in ("val", "test"))
        return replace(super().task, bytes_per_token=(val, test))

    def load(self, splits: Sequence[Split]) -> dict[Split, Sequences]:
        """Tokenize what is not in the cache, and open it."""
        files = split_files(self.root_folder)
        documents = cache(lambda source: self._tokenized(read_files(files[source], [self.text])))
        sequences: dict[Split, Sequences] = {}
        for split in splits:
            whole = documents(split if split in files else "train")
            part = whole if split in files and split != "train" else self._part(whole, files, split)
            sequences[split] = self._packed(part, keeps_rest=split != "train")
            if not len(sequences[split]):
                raise UserError(
                    f"data {self.info.name}: the {split} split has {len(part):,} of {len(whole):,} documents, which "
                    f"are less than one sequence of {self.text_length} tokens; add texts, or lower data.max_len"
                )
        return sequences

    def _tokenized(self, rows: Any) -> Any:
        """Tokens and number of bytes of every document."""
        column = rows.data.column(self.text)
        if column.null_count or rows.features[self.text].dtype not in ("string", "large_string"):
            held = f"{column.null_count:,} rows without a text" if column.null_count else "no texts"
            raise UserError(f"{self.root}: column {self.text!r} has {held}; set data.text, or correct the rows")
        identity = [rows._fingerprint, description_of(self.words), end_of(self.words), self.text]
        options = {
            "batched": True,
            "fn_kwargs": {"tokenizer": self.words, "end": end_of(self.words)},
            "input_columns": self.text,
            "remove_columns": rows.column_names,
            "new_fingerprint": library().fingerprint.Hasher.hash(identity),
        }
        return guarded(lambda: rows.map(_with_end, **options), str(_cache()), _REMEDY)

    def _part(self, documents: Any, files: Iterable[Split], split: Split) -> Any:
        """The training documents, or those that are held out for a split without files."""
        order = np.random.default_rng(self.split_seed).permutation(len(documents))
        share = -int(-len(documents) * self.val_fraction // 1)
        parts = dict[Split, Indices]()
        for absent in ("test", "val"):
            if absent not in files:
                parts[absent], order = order[:share], order[share:]
        return documents.select(np.sort(parts.get(split, order)))

    def _packed(self, documents: Any, keeps_rest: bool) -> Sequences:
        """The documents one after the other, in sequences; written once into the cache."""
        datasets = library()
        arguments = {"documents": documents, "length": self.text_length, "keeps_rest": keeps_rest}
        if not len(documents):
            return Sequences(documents, 0.0)
        features = datasets.Features(tokens=datasets.List(datasets.Value("int32")))
        identity = datasets.fingerprint.Hasher.hash([documents._fingerprint, self.text_length, keeps_rest])
        options = {"gen_kwargs": arguments, "fingerprint": identity, "cache_dir": str(_cache())}
        try:
            rows = guarded(
                lambda: datasets.Dataset.from_generator(_sequences, features, **options), str(_cache()), _REMEDY
            )
        except UserError as error:
            if "corresponds to no data" not in str(error):
                raise
            rows = documents.select([])
        predicted = (len(rows) - 1) * self.text_length + len(rows[-1]["tokens"]) - 1 if len(rows) else 1
        return Sequences(rows, sum(documents["bytes"]) / predicted)

    def first(self, examples: Sequences, count: int, split: Split) -> Sequences:
        """The first ``count`` sequences of a seeded draw."""
        chosen = np.random.default_rng(self.split_seed).permutation(len(examples))[:count]
        return replace(examples, rows=examples.rows.select(chosen))

    def content(self, examples: Sequences) -> Iterable[bytes]:
        """The tokens of 2,000 sequences, evenly spread."""
        return (np.array(examples[place]).tobytes() for place in spread(len(examples), 2_000))

    def collate(self, examples: Sequence[tuple[Any, Any]]) -> Batch:
        """Stack sequences; a shorter last one is padded, and its padding has no targets."""
        inputs = padded(self.words, [{"input_ids": tokens} for tokens, _ in examples])
        targets: list[Tensor] = [torch.tensor(following) for _, following in examples]
        return Batch(inputs, pad_sequence(targets, True, IGNORE_TOKEN), self.info.name)


def _cache() -> Path:
    return cache_root() / "texts"


def _with_end(texts: list[str | None], tokenizer: Any, end: int) -> dict[str, list[Any]]:
    """The tokens of documents that are not empty, each after the end token, and their number of bytes."""
    documents = [text for text in texts if text and text.strip()]
    tokens = (
        tokenizer(documents, add_special_tokens=False, return_attention_mask=False)["input_ids"] if documents else []
    )
    return {"tokens": [[end, *each] for each in tokens], "bytes": [len(text.encode()) for text in documents]}


def _sequences(documents: Any, length: int, keeps_rest: bool) -> Iterator[dict[str, list[int]]]:
    """Sequences of ``length`` + 1 tokens; with ``keeps_rest`` the last one is shorter."""
    rest: list[int] = []
    for document in documents:
        rest += document["tokens"]
        while len(rest) > length:
            yield {"tokens": rest[: length + 1]}
            rest = rest[length:]
    if keeps_rest and len(rest) > 1:
        yield {"tokens": rest}
