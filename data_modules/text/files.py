"""``TextFiles``: plain texts of a user, for language: each token is predicted from those before it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from data_modules.base import DatasetInfo, Split
from data_modules.splits import Indices
from data_modules.text.documents import find_files
from data_modules.text.module import TokenSet
from data_modules.text.sequences import Sequences, TokenFile
from data_modules.text.tokens import load_tokenizer
from lgx.core.batch import Batch
from lgx.core.schema import LINE
from lgx.core.task import IGNORE_TOKEN, PERPLEXITY, Task
from lgx.errors import UserError


@dataclass(eq=False, repr=False)
class TextFiles(TokenSet[Sequences]):
    """Plain texts in files, for tasks of the kind ``language``: each token is predicted from those before it.

    Documents are the parts of a ``.txt`` file between empty lines, the objects of a ``.jsonl`` file, or the rows of a
    ``.parquet`` file; gzip may compress the first two. Files and folders ``val`` and ``test`` below ``root`` are these
    splits, e.g. ``val.jsonl``, ``test/a.txt`` or ``train-00000.parquet``. Without them, ``val_fraction`` of the
    training documents is held out for each.

    Texts are tokenized once, into a file of lgx's cache, and may be larger than the memory. Each document begins with
    the tokenizer's end token. Documents follow one another in sequences of ``max_len`` tokens, and tokens attend to the
    document before theirs. Training leaves out the last, incomplete sequence. Evaluation predicts every token of a
    split once, and its bits per byte count the UTF-8 bytes of the documents. An example is a sequence, also for
    ``limit_train``.

    Args:
        root: Folder with the files, or one file.
        tokenizer: Folder with the tokenizer of the network: ``tokenizer.json``, or GPT-2's ``encoder.json`` and
            ``vocab.bpe``. Code in a folder is never executed.
        max_len: Tokens of a sequence; default: 128, or the positions in ``config.json`` beside the tokenizer if fewer.
        text_field: Key or column of the texts in JSON lines and Parquet files.
        name: Name of the task; default: the name of the folder or file.
    """

    root: str = field()
    text_field: str = "text"
    name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.name or self.root_folder.resolve().stem
        if not LINE.holds(name):
            raise UserError(f"data.root: the name {name!a} cannot be printed in one line; give one with --data.name")
        splits = "files named val and test, or val_fraction of the training documents for each"
        size, own = self.token_count, "the user's own"
        self.info = DatasetInfo(name, size, (None,) * 3, own, self.root, splits, kind="language", metric=PERPLEXITY)

    def check_options(self) -> None:
        """See :class:`~data_modules.loading.module.DataOptions`; a tokenizer must be given."""
        super().check_options()
        if self.tokenizer is None:
            raise UserError("data.tokenizer: give the folder with the tokenizer of the network")

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup`, without the number of examples and of bytes."""
        val, test = (self._splits[s].bytes_per_token if s in self._splits else 0.0 for s in ("val", "test"))
        return replace(super().task, bytes_per_token=(val, test))

    def load(self, splits: Sequence[Split]) -> dict[Split, Sequences]:
        """Tokenize what is not in the cache, and open it."""
        tokenizer, files = load_tokenizer(self.tokenizer_place, self.token_count), find_files(self.root_folder)
        opened = cache(lambda source: TokenFile(files[source], self.text_field, tokenizer, self.info.name))
        found: dict[Split, Sequences] = {}
        for split in splits:
            whole = opened(source := split if split in files else "train")
            chosen = self._held_out(len(whole), files)[split] if source == "train" else np.arange(len(whole))
            found[split] = Sequences(whole, chosen, self.text_length, split != "train")
            if not len(found[split]):
                documents = f"{len(chosen):,} of {len(whole):,} documents"
                remedy = "lower data.max_len" if len(chosen) else f"add a file {split}.*, or change data.val_fraction"
                raise UserError(
                    f"data {self.info.name}: the {split} split has {documents}, which are less than one sequence of "
                    f"{self.text_length} tokens; add texts, or {remedy}"
                )
        return found

    def _held_out(self, count: int, files: Iterable[Split]) -> dict[Split, Indices]:
        """Numbers of the documents of train, and of the splits that have no files, out of ``count`` documents."""
        order = np.random.default_rng(self.split_seed).permutation(count)
        share, parts = -int(-count * self.val_fraction // 1), dict[Split, Indices]()
        for split in ("test", "val"):
            if split not in files:
                parts[split], order = order[:share], order[share:]
        return {split: np.sort(part) for split, part in {**parts, "train": order}.items()}

    def first(self, examples: Sequences, count: int, split: Split) -> Sequences:
        """The first ``count`` sequences of a seeded draw."""
        return examples.take(np.random.default_rng(self.split_seed).permutation(len(examples))[:count])

    def content(self, examples: Sequences) -> Iterable[bytes]:
        """The tokens, by their digest, and which of them belong to the split."""
        return (examples.file.digest, *(part.tobytes() for part in (examples.shifts, examples.ends, examples.order)))

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Stack sequences; a shorter last one is padded, and its padding has no targets."""
        ids, targets = (list(parts) for parts in zip(*examples, strict=True))
        padded = pad_sequence(ids, True, self.pad_id), pad_sequence(targets, True, IGNORE_TOKEN)
        return Batch(*padded, self.info.name)
