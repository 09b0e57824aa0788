"""``TextDataModule``: the base of all text data modules; ``TextSet``: of those that are read from files or the hub.

If the labels of the official test are not public, the official development set is the test, as in the tables of papers;
validation examples are then held out of the training texts. GLUE: Wang et al., "A Multi-Task Benchmark and Analysis
Platform for Natural Language Understanding", 2019.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_info
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import default_convert

from data_modules.base import Split
from data_modules.files.tables import read_lines
from data_modules.loading.module import DataOptions, ExamplesT, SingleSet, check_least
from data_modules.loading.samplers import Batching, LengthBatchSampler, TransformedExamples, unpadded_share
from data_modules.splits import stratified_order, stratified_split
from data_modules.text.rows import Row, has_column, read_hub, read_table
from data_modules.text.tokens import Texts, config_size, load_tokenizer, pad_in, size_in, tokenize
from lgx.core.batch import Batch
from lgx.core.task import Task
from lgx.errors import UserError


@dataclass(eq=False, repr=False)
class TokenOptions(DataOptions):
    """Options of all data modules of texts.

    Args:
        tokenizer: Folder with GPT-2's ``encoder.json`` and ``vocab.bpe``, folder of any model with ``tokenizer.json``,
            or name of a GPT-2 on the Hugging Face hub; default ``root/gpt2_vocab``. Code in a folder is never executed.
        max_len: Longest text in tokens; longer texts are cut at the end, and their number is reported. Default: 128, or
            fewer if a ``config.json`` in the tokenizer's folder gives fewer positions.
        vocab_size: Number of tokens in the model's vocabulary. A ``tokenizer.json`` may have fewer, but not more.
            Default: that of a ``config.json`` in the tokenizer's folder, else the tokenizer's.
        num_workers: Loader processes; 0 uses the training process, which is fast enough because texts are in memory.
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
    def text_length(self) -> int:
        """Longest text in tokens."""
        known = config_size(Path(self.tokenizer_place), "max_position_embeddings", "n_positions")
        return self.max_len or min(128, known or 128)

    @cached_property
    def token_count(self) -> int:
        """Number of tokens in the model's vocabulary."""
        if self.vocab_size or self.tokenizer is None or not (folder := Path(self.tokenizer)).is_dir():
            return self.vocab_size or self.vocabulary[1]
        return config_size(folder, "vocab_size") or size_in(folder)

    @cached_property
    def pad_id(self) -> int:
        """The token that pads shorter texts: the tokenizer's own, else its end token; the last token of a GPT-2."""
        return pad_in(Path(self.tokenizer_place), self.token_count)


@dataclass(eq=False, repr=False)
class TextOptions(TokenOptions):
    """Options of text sets.

    Args:
        source: ``files`` reads the publishers' files below ``root/<name>``; ``hub`` loads the set with Hugging Face
            ``datasets``.
    """

    source: Literal["files", "hub"] = "files"


class TokenSet(TokenOptions, SingleSet[ExamplesT]):
    """Base of the data modules of one set of texts."""

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup` (until then ``num_train`` is the published size)."""
        return Task(
            name=self.info.name,
            num_classes=self.num_classes,
            kind="language" if self.info.kind == "language" else "text",
            metric=self.info.metric,
            num_train=self.train_size,
            class_names=self.info.class_names,
            max_len=self.text_length,
            vocab_size=self.token_count,
            pad_id=self.pad_id,
        )

    def transformed(self, examples: ExamplesT, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """The examples as tensors: token ids are not augmented."""
        return TransformedExamples(examples, default_convert)


class TextDataModule(TextOptions, TokenSet[Texts]):
    """Base of all text classification data modules.

    A subclass sets ``info`` and implements :meth:`read`. The three splits are disjoint, and validation never reads the
    test split. Texts are tokenized once, in :meth:`setup`. ``Batch.inputs`` are token ids, int64, (B, N), padded on the
    right to the longest text of the batch with :attr:`pad_id`, which occurs in no text of a GPT-2. ``vocabulary`` is
    the folder of the usual vocabulary below ``root``, and its number of tokens.
    """

    @abstractmethod
    def read(self, split: Split) -> list[Row] | None:
        """Return the rows of one split; None for ``val`` if it is to be held out of ``train``.

        Raises:
            UserError: If the data are absent or malformed; the sentence names the file and line.
        """

    def load(self, splits: Sequence[Split]) -> dict[Split, Texts]:
        """Read and tokenize whole splits; also ``train`` if ``val`` is held out of it."""
        tokenizer = load_tokenizer(self.tokenizer_place, self.token_count)
        rows = {split: self.read(split) for split in splits}
        found = {split: self._tokenized(part, tokenizer, split) for split, part in rows.items() if part is not None}
        if "val" in rows and "val" not in found:
            train = found.get("train") or self._tokenized(self.read("train") or [], tokenizer, "train")
            kept, held = stratified_split(train.labels, self.val_fraction, self.split_seed)
            found |= {"train": train.take(kept), "val": train.take(held)}
        return found

    def count_train(self) -> int:
        """See :class:`~data_modules.base.TaskDataModule`."""
        if self.source == "hub":
            raise UserError("it would have to be downloaded")
        return super().count_train()

    def first(self, examples: Texts, count: int, split: Split) -> Texts:
        """The first ``count`` examples of a class-stratified, seeded draw."""
        return examples.take(stratified_order(examples.labels, self.split_seed)[:count])

    def content(self, examples: Texts) -> Iterable[bytes]:
        """All tokens and labels."""
        return (part.tobytes() for part in (examples.ids, examples.offsets, examples.labels))

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Pad texts on the right to the longest of them."""
        ids, labels = zip(*examples, strict=True)
        return Batch(pad_sequence(list(ids), True, self.pad_id), torch.tensor(labels), self.info.name)

    def train_sampler(self, examples: Texts, batching: Batching) -> LengthBatchSampler:
        """Batches of texts of similar length."""
        return LengthBatchSampler(examples.lengths, batching)

    def eval_sampler(self, examples: Texts, rank: int, world_size: int, in_order: bool) -> Sequence[int]:
        """Every text once, the shortest first unless they must stay in order."""
        own = unpadded_share(len(examples), rank, world_size)
        return own if in_order else sorted(own, key=lambda index: int(examples.lengths[index]))

    def _tokenized(self, rows: list[Row], tokenizer: Any, split: Split) -> Texts:
        texts, cut = tokenize(rows, tokenizer, self.text_length)
        if cut:
            rank_zero_info(
                f"{self.info.name} {split}: {cut:,} of {len(texts):,} texts were cut to data.max_len {self.text_length}"
            )
        return self.refuse_empty(texts, split)


HELD_OUT = "a stratified tenth of the official train held out as val"


class TextSet(TextDataModule):
    """A set of tab-separated files in the form of GLUE, ``root/<name>/{train,dev,test}.tsv``.

    The test is ``test.tsv`` if that has labels, else ``dev.tsv``. Validation is ``val.tsv`` if there is one, else
    ``dev.tsv`` if that is not the test, else it is held out of ``train.tsv``. A subclass sets ``info`` and ``hub``;
    a set in another form overrides :meth:`read_files` and sets ``layout``.

    Attributes:
        columns: Columns with texts.
        label: Column with labels.
        header: All columns, for files without a header line.
        labels: Value of the label column -> class index.
        has_broken_rows: Whether the files have lines that are no whole rows, which are left out.
        layout: Which files a user has to place in :attr:`folder`, for messages.
        hub: Name and configuration on the Hugging Face hub, and the name of each split there. If ``val`` is missing,
            it is held out of train.
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

    def read(self, split: Split) -> list[Row] | None:
        """See :class:`~data_modules.text.module.TextDataModule`."""
        if self.source == "hub":
            name, config, splits = self.hub
            if split not in splits:
                return None
            columns = self.hub_columns or self.columns
            return read_hub(name, config, splits[split], columns, "label", self.num_classes)
        if not self.folder.is_dir():
            layout = self.layout.format(source=self.info.source, name=self.info.name, root=self.root)
            raise UserError(f"{self.info.name}: nothing at {self.folder}; {layout}, or set data.source to hub")
        return self.read_files(split)

    def read_files(self, split: Split) -> list[Row] | None:
        """Read a split from the files in :attr:`folder`; None for ``val`` if no file has it."""
        tested = has_column(self.folder / "test.tsv", self.label)
        if split == "train":
            return self.read_table("train.tsv")
        if split == "test":
            return self.read_table("test.tsv" if tested else "dev.tsv")
        if (self.folder / "val.tsv").is_file():
            return self.read_table("val.tsv")
        return self.read_table("dev.tsv") if tested else None

    def read_table(self, name: str) -> list[Row]:
        """Read one file; its header line may be missing if :attr:`header` is set."""
        path = self.folder / name
        header = None
        if self.header:
            fields = read_lines(path, 1)[0].split("\t")
            is_row = len(fields) == len(self.header) and fields[self.header.index(self.label)] in self.labels
            header = self.header if is_row else None
        return read_table(path, self.columns, self.label, self.labels, header, self.has_broken_rows)
