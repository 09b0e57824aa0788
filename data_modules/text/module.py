"""``TextDataModule``: the base of all modules of labeled texts; ``TextSet``: of those of files or the hub.

If the labels of the official test are not public, the official development set is the test, as in the tables of papers;
validation examples are then held out of the training texts. GLUE: Wang et al., "A Multi-Task Benchmark and Analysis
Platform for Natural Language Understanding", 2019.
"""

import csv
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from data_modules.base import DatasetInfo, Split
from data_modules.files.tables import read_lines
from data_modules.loading.fingerprint import spread
from data_modules.loading.module import DataOptions, ExamplesT, SingleSet, check_least
from data_modules.loading.samplers import Batching, LengthBatchSampler, TransformedExamples, length_order
from data_modules.splits import Indices, stratified_order, stratified_split
from data_modules.text.rows import labeled, library, read_files, read_hub
from data_modules.text.tokenizer import config_size, description_of, load_tokenizer, padded, size_of
from lgx.core.batch import Batch
from lgx.core.task import Task
from lgx.errors import UserError

_COMPARED = 2_000
"""Texts of a split that tell whether a resumed run reads the same ones."""


@dataclass(frozen=True)
class Texts:
    """Tokenized texts of one split.

    Attributes:
        rows: What the tokenizer gives for each text, as a data set of the package datasets.
        labels: Class indices, int64, (N,).
        lengths: Tokens of each text, (N,).
    """

    rows: Any
    labels: Indices
    lengths: Indices

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[dict[str, list[int]], Any]:
        return self.rows[int(index)], self.labels[index]

    def take(self, indices: Indices) -> "Texts":
        """The texts at ``indices``."""
        return Texts(self.rows.select(indices), self.labels[indices], self.lengths[indices])


@dataclass(eq=False, repr=False)
class TokenOptions(DataOptions):
    """Options of all data modules of texts.

    Args:
        tokenizer: Folder of the network of transformers with its tokenizer, folder with GPT-2's ``encoder.json`` and
            ``vocab.bpe``, or name on the Hugging Face hub; default ``root/gpt2_vocab``. Code in a folder is never
            executed.
        max_len: Longest text in tokens; longer texts are cut as the tokenizer does, and their number is reported.
            Default: 128, or fewer if the files in the tokenizer's folder give fewer positions.
        vocab_size: Number of tokens that the network knows, at least those of the tokenizer. Default: that of a
            ``config.json`` in the tokenizer's folder, else the tokenizer's.
        num_workers: Loader processes; 0 uses the training process, which is fast enough because texts are tokenized.
        seed: Seed of the order.
    """

    batch_size: int = 32
    tokenizer: str | None = None
    max_len: int | None = None
    vocab_size: int | None = None
    vocabulary: ClassVar[tuple[str, int]] = "gpt2_vocab", 50257

    def check_options(self) -> None:
        """See :class:`DataOptions`."""
        super().check_options()
        check_least(self, {"max_len": 3, "vocab_size": 2})

    @property
    def tokenizer_place(self) -> str | Path:
        """Folder or name of the tokenizer."""
        return self.tokenizer or self.root_folder / self.vocabulary[0]

    @cached_property
    def words(self) -> Any:
        """The tokenizer."""
        return load_tokenizer(self.tokenizer_place, self.vocab_size or config_size(self.tokenizer_place, "vocab_size"))

    @cached_property
    def text_length(self) -> int:
        """Longest text in tokens."""
        positions = config_size(self.tokenizer_place, "max_position_embeddings", "n_positions", "model_max_length")
        return self.max_len or min(128, positions or 128)

    @cached_property
    def token_count(self) -> int:
        """Number of tokens that the network knows."""
        if self.vocab_size or self.tokenizer is None:
            return self.vocab_size or self.vocabulary[1]
        return config_size(self.tokenizer, "vocab_size") or size_of(self.words)


@dataclass(eq=False, repr=False)
class TextOptions(TokenOptions):
    """Options of text sets.

    Args:
        source: ``files`` reads the publishers' files below ``root/<name>``; ``hub`` loads the set with Hugging Face
            ``datasets``.
    """

    source: Literal["files", "hub"] = "files"


@dataclass(eq=False, repr=False)
class OwnTexts(TokenOptions):
    """Options of the texts of a user.

    Args:
        root: File, or folder with files.
        text: Key or column with the texts; of pairs the two columns, separated by a comma.
        name: Name of the task; default: the name of the folder or file.
    """

    root: str = field()
    text: str = "text"
    name: str | None = None

    def describe(self, num_classes: int, **facts: Any) -> DatasetInfo:
        """Facts of the user's set."""
        name = self.name or self.root_folder.resolve().stem
        splits = "words in the paths of the files, or val_fraction of the training texts for each"
        return DatasetInfo(name, num_classes, (None,) * 3, "the user's own", self.root, splits, **facts)


class TokenSet(TokenOptions, SingleSet[ExamplesT]):
    """Base of the data modules of one set of texts. ``Batch.inputs`` are tokens with their attention mask."""

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup` (until then ``num_train`` is the published size)."""
        return Task(
            name=self.info.name,
            num_classes=self.num_classes,
            kind=self.info.kind,
            metric=self.info.metric,
            num_train=self.train_size,
            class_names=self.info.class_names,
            max_len=self.text_length,
            vocab_size=self.token_count,
        )

    def transformed(self, examples: ExamplesT, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """The examples as they are: token ids are not augmented."""
        return TransformedExamples(examples, _unchanged)


def _unchanged(text: Any) -> Any:
    return text


class TextDataModule(TokenSet[Texts]):
    """Base of all data modules of labeled texts.

    A subclass sets ``info`` and implements :meth:`read` and :attr:`absent`. The three splits are disjoint, and
    validation never reads the test split. Texts are tokenized once, in :meth:`setup`, by the tokenizer's own call.
    ``vocabulary`` is the folder of the usual vocabulary below ``root``, and its number of tokens.
    """

    @property
    @abstractmethod
    def absent(self) -> Sequence[Split]:
        """The splits that have no texts of their own; ``val_fraction`` of the training texts is held out for each."""

    @abstractmethod
    def read(self, split: Split) -> Any:
        """Read a split that is not absent.

        Returns:
            A data set of the package datasets with the columns ``text``, of pairs ``text_pair``, and ``label``.

        Raises:
            UserError: If the data are absent or malformed; the sentence names the file and row.
        """

    def load(self, splits: Sequence[Split]) -> dict[Split, Texts]:
        """Read and tokenize whole splits; also ``train`` if a split is held out of it."""
        absent: list[Split] = [split for split in ("test", "val") if split in self.absent]
        stored = dict.fromkeys("train" if split in absent else split for split in splits)
        texts: dict[Split, Texts] = {split: self._tokenized(self.read(split), split) for split in stored}
        for split in absent if "train" in texts else ():
            train = texts["train"]
            kept, held = stratified_split(train.labels, self.val_fraction, self.split_seed)
            texts |= {"train": train.take(kept), split: train.take(held)}
        return {split: self.refuse_empty(texts[split], split) for split in {*splits, *stored}}

    def first(self, examples: Texts, count: int, split: Split) -> Texts:
        """The first ``count`` examples of a class-stratified, seeded draw."""
        return examples.take(stratified_order(examples.labels, self.split_seed)[:count])

    def content(self, examples: Texts) -> Iterable[bytes]:
        """All labels and lengths, and the tokens of 2,000 texts, evenly spread."""
        yield from (part.tobytes() for part in (examples.labels, examples.lengths))
        yield from (np.array(examples[i][0]["input_ids"]).tobytes() for i in spread(len(examples), _COMPARED))

    def collate(self, examples: Sequence[tuple[Any, Any]]) -> Batch:
        """Pad texts to the longest of them."""
        texts, labels = zip(*examples, strict=True)
        return Batch(padded(self.words, texts), torch.from_numpy(np.array(labels, np.int64)), self.info.name)

    def train_sampler(self, examples: Texts, batching: Batching) -> LengthBatchSampler:
        """Batches of texts of similar length."""
        return LengthBatchSampler(examples.lengths, batching)

    def eval_sampler(self, examples: Texts, rank: int, world_size: int, in_order: bool) -> Sequence[int]:
        """Every text once, in batches of similar length unless they must stay in order."""
        if in_order:
            return super().eval_sampler(examples, rank, world_size, in_order)
        generator = torch.Generator().manual_seed(self.split_seed)
        return length_order(examples.lengths, self.evaluation_batch * world_size, generator)[rank::world_size]

    def _tokenized(self, rows: Any, split: Split) -> Texts:
        pairs = "text_pair" in rows.column_names
        if self.words.num_special_tokens_to_add(pair=pairs) >= self.text_length:
            raise UserError(f"data.max_len: the special tokens leave no room for a text in {self.text_length} tokens")
        identity = [rows._fingerprint, description_of(self.words), self.text_length]
        encoded = rows.map(
            _encoded,
            batched=True,
            fn_kwargs={"tokenizer": self.words, "length": self.text_length},
            remove_columns=rows.column_names,
            new_fingerprint=library().fingerprint.Hasher.hash(identity),
        )
        cut = int(np.sum(encoded["is_cut"]))
        if cut:
            name = self.info.name
            rank_zero_info(
                f"{name} {split}: {cut:,} of {len(rows):,} texts were cut to data.max_len {self.text_length}"
            )
        lengths = np.array(encoded["length"], np.int64)
        if not lengths.all():
            raise UserError(
                f"data {self.info.name}: {split} row {int(np.argmin(lengths)) + 1} has an empty text, and no token; "
                f"remove the row, or give a tokenizer with special tokens"
            )
        tokens = encoded.remove_columns(["length", "is_cut"])
        return Texts(tokens, np.array(rows["label"], np.int64), lengths)


def _encoded(batch: Any, tokenizer: Any, length: int) -> dict[str, Any]:
    """The tokens of texts or pairs, their number, and whether a text was cut."""
    columns = [batch[key] for key in ("text", "text_pair") if key in batch]
    texts = tokenizer(*columns, truncation=True, max_length=length, return_attention_mask=False)
    cut = [bool(each.overflowing) for each in texts.encodings or ()] or [False] * len(columns[0])
    return {**texts, "length": list(map(len, texts["input_ids"])), "is_cut": cut}


HELD_OUT = "a stratified tenth of the official train held out as val"


class TextSet(TextOptions, TextDataModule):
    """A set of tab-separated files in the form of GLUE, ``root/<name>/{train,dev,test}.tsv``.

    The test is ``test.tsv`` if that has labels, else ``dev.tsv``. Validation is ``val.tsv`` if there is one, else
    ``dev.tsv`` if that is not the test, else it is held out of ``train.tsv``. A subclass sets ``info`` and ``hub``;
    a set in another form overrides :meth:`files` and sets ``layout``.

    Attributes:
        columns: Columns with texts.
        label: Column with labels.
        header: All columns, for files without a header line.
        labels: Value of the label column -> class index.
        has_broken_rows: Whether the files have lines that are no whole rows, which are left out.
        layout: Which files a user has to place in :attr:`folder`, for messages.
        hub: Name and configuration on the Hugging Face hub, and the name of each split there.
        hub_columns: Columns with texts on the hub, if their names differ; the column ``label`` has class indices.
    """

    columns: ClassVar[tuple[str, ...]] = ("sentence",)
    label: ClassVar[str] = "label"
    header: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[dict[str, int]] = {"0": 0, "1": 1}
    has_broken_rows: ClassVar[bool] = False
    layout: ClassVar[str] = "place train.tsv and dev.tsv of {source} there"
    hub: ClassVar[tuple[str, str | None, dict[Split, str]]]
    hub_columns: ClassVar[tuple[str, ...]] = ()

    def prepare_data(self) -> None:
        """Download the set if it is read from the hub. Lightning calls this on one process only."""
        if self.source == "hub":
            for split in self.hub[2]:
                self.read(split)

    @property
    def absent(self) -> Sequence[Split]:
        """See :class:`TextDataModule`: only validation may be absent."""
        has_val = "val" in self.hub[2] if self.source == "hub" else bool(self.files("val"))
        return () if has_val else ("val",)

    def read(self, split: Split) -> Any:
        """See :class:`TextDataModule`."""
        if self.source == "hub":
            name, config, splits = self.hub
            rows = read_hub(name, config, splits[split])
            columns = self.hub_columns or self.columns
            indices = {str(index): index for index in range(self.num_classes)}
            return labeled(rows, columns, "label", indices, f"{name} {splits[split]}")
        layout = self.layout.format(source=self.info.source, name=self.info.name, root=self.root)
        if not self.folder.is_dir():
            raise UserError(f"{self.info.name}: nothing at {self.folder}; {layout}, or set data.source to hub")
        paths = [self.folder / name for name in self.files(split)]
        missing = next((path for path in paths if not path.exists()), None)
        if missing:
            raise UserError(f"{missing} does not exist; {layout}")
        return self.read_table(paths)

    def count_train(self) -> int:
        """See :class:`~data_modules.base.TaskDataModule`."""
        if self.source == "hub":
            raise UserError("it would have to be downloaded")
        return super().count_train()

    def files(self, split: Split) -> Sequence[str]:
        """Names of the files of a split below :attr:`folder`; none for ``val`` if no file has it."""
        test = self.folder / "test.tsv"
        is_labeled = test.is_file() and self.label in read_lines(test, 1)[0].split("\t")
        if split == "val":
            return ["val.tsv"] if (self.folder / "val.tsv").is_file() else ["dev.tsv"] if is_labeled else []
        return ["train.tsv" if split == "train" else "test.tsv" if is_labeled else "dev.tsv"]

    def read_table(self, paths: Sequence[Path]) -> Any:
        """Read files with tabs between columns; a header line may be missing if :attr:`header` is set."""
        options: dict[str, Any] = {
            "quoting": csv.QUOTE_NONE,
            "on_bad_lines": "skip" if self.has_broken_rows else "error",
        }
        if self.header:
            first = read_lines(paths[0], 1)[0].split("\t")
            if len(first) == len(self.header) and first[self.header.index(self.label)] in self.labels:
                options |= {"names": list(self.header), "header": None}
        rows = read_files(paths, [*self.columns, self.label], ".tsv", **options)
        if self.has_broken_rows:
            whole = rows.filter(lambda label: label in self.labels, input_columns=self.label)
            rank_zero_info(f"{paths[0]}: {len(rows) - len(whole):,} incomplete rows were left out")
            rows = whole
        return labeled(rows, self.columns, self.label, self.labels, ", ".join(map(str, paths)))
