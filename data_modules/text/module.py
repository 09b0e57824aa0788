"""``TextDataModule``: the base of all text data modules."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_info
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from data_modules.base import Split
from data_modules.loading.options import DataOptions, check_least
from data_modules.loading.samplers import Batching, LengthBatchSampler, TransformedExamples, UnpaddedEvalSampler
from data_modules.loading.single_set import SingleSet
from data_modules.splits import stratified_order, stratified_split
from data_modules.text.rows import Row
from data_modules.text.tokens import Texts, load_tokenizer, tokenize
from lgx.core.batch import Batch
from lgx.core.task import Task
from lgx.errors import UserError


@dataclass(eq=False, repr=False)
class TextOptions(DataOptions):
    """Options of text sets.

    Args:
        tokenizer: Folder with GPT-2's ``encoder.json`` and ``vocab.bpe``, or a name on the Hugging Face hub; default
            ``root/gpt2_vocab``.
        source: ``files`` reads the publishers' files below ``root/<name>``; ``hub`` loads the set with Hugging Face
            ``datasets``.
        max_len: Longest text, in tokens; longer ones are cut at the end, and their number is reported.
        vocab_size: Tokens that the model knows.
        num_workers: Loader processes; texts are held in memory, so that 0, the training process itself, is fast enough.
        seed: Seed of the order.
    """

    batch_size: int = 32
    tokenizer: str | None = None
    source: Literal["files", "hub"] = "files"
    max_len: int = 128
    vocab_size: int = 50257

    def check_options(self) -> None:
        """See :class:`DataOptions`."""
        super().check_options()
        check_least(self, {"max_len": 3, "vocab_size": 2})


class TextDataModule(TextOptions, SingleSet[Texts]):
    """Base of all text classification data modules.

    A subclass sets ``info`` and implements :meth:`read`. The three splits are disjoint, and validation never reads the
    test split. Texts are tokenized once, in :meth:`setup`. ``Batch.inputs`` are token ids, int64, (B, N), padded on the
    right to the longest text of the batch with the last token of the vocabulary, which occurs in no text.

    Attributes:
        vocabulary: Folder of the vocabulary below ``root``, if it is not that of GPT-2.
    """

    vocabulary: ClassVar[str] = "gpt2_vocab"

    @abstractmethod
    def read(self, split: Split) -> list[Row] | None:
        """Return the rows of one split; None for ``val`` if it is to be held out of ``train``.

        Raises:
            UserError: If the data are absent or malformed; the sentence names the file and line.
        """

    @property
    def pad_id(self) -> int:
        """The token with which shorter texts are padded."""
        return self.vocab_size - 1

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup` (until then ``num_train`` is the published size)."""
        return Task(
            name=self.info.name,
            num_classes=self.num_classes,
            kind="text",
            metric=self.info.metric,
            num_train=self.train_size,
            class_names=self.info.class_names,
            max_len=self.max_len,
            vocab_size=self.vocab_size,
        )

    def load(self, splits: Sequence[Split]) -> dict[Split, Texts]:
        """Read and tokenize whole splits; also ``train`` if ``val`` is held out of it.

        Raises:
            UserError: If the files are absent or damaged, or a split is empty.
        """
        tokenizer = load_tokenizer(self.tokenizer or self.root_folder / self.vocabulary, self.vocab_size)
        rows = {split: self.read(split) for split in splits}
        found = {split: self._tokenized(part, tokenizer, split) for split, part in rows.items() if part is not None}
        if "val" in rows and "val" not in found:
            train = found.get("train") or self._tokenized(self.read("train") or [], tokenizer, "train")
            kept, held = stratified_split(train.labels, self.val_fraction, self.split_seed)
            found |= {"train": train.take(kept), "val": train.take(held)}
        return found

    def count_train(self) -> int:
        """Count the training examples in the files, without ``limit_train``.

        Raises:
            UserError: If the files are not present.
        """
        if self.source == "hub":
            raise UserError("it would have to be downloaded")
        return super().count_train()

    def transformed(self, examples: Texts, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """The examples as tensors: token ids are not augmented."""
        return TransformedExamples(examples, _unchanged)

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
        own = UnpaddedEvalSampler(len(examples), rank, world_size).indices
        return own if in_order else sorted(own, key=lambda index: int(examples.lengths[index]))

    def _tokenized(self, rows: list[Row], tokenizer: Any, split: Split) -> Texts:
        texts, cut = tokenize(rows, tokenizer, self.max_len)
        if cut:
            rank_zero_info(
                f"{self.info.name} {split}: {cut:,} of {len(texts):,} texts were cut to data.max_len {self.max_len}"
            )
        return self.refuse_empty(texts, split)


def _unchanged(ids: Tensor) -> Tensor:
    return ids
