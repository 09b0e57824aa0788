"""Several text sets as one: every batch holds texts of one task."""

from collections.abc import Mapping
from typing import Literal

from data_modules.catalogue import open_text
from data_modules.several import SeveralSets
from data_modules.splits import Indices
from data_modules.tokens import Texts


class MultiText(SeveralSets):
    """Trains on several text sets at once, see :class:`~data_modules.several.SeveralSets`.

    Batches hold texts of like length, as those of one set do.

    Args:
        tasks: The text sets: names of ``lgx data list``.
        root: Folder below which the data sets lie.
        tokenizer: Folder with GPT-2's ``encoder.json`` and ``vocab.bpe``, or a name on the Hugging Face hub; default
            ``root/gpt2_vocab``.
        source: ``files`` or ``hub``, for all tasks, see :class:`~data_modules.text.TextDataModule`.
        max_len: Longest text, in tokens, for all tasks.
        too_long: ``cut`` or ``refuse`` longer texts.
        vocab_size: Tokens that the model knows.
        batch_size: Training examples per process and step.
        eval_batch_size: Evaluation examples per process and step; default 2 x ``batch_size``.
        temperature: T of the draw; 1 draws by size, larger ones flatten, ``.inf`` draws uniformly.
        steps_per_epoch: Training steps of an epoch; default as many as see the sum of all training examples.
        num_workers: Loader processes; 0 loads in the training process.
        val_fraction: Share of a task's training texts held out for validation where it has none for it.
        split_seed: Seed of that split and of the limits.
        seed: Seed of draws and order.
        limit_train: Use only the first so many training examples of each task's class-stratified, seeded draw.
        limit_eval: Likewise for validation; the test is always whole.
    """

    def __init__(
        self,
        tasks: tuple[str, ...],
        root: str = "data",
        tokenizer: str | None = None,
        source: Literal["files", "hub"] = "files",
        max_len: int = 128,
        too_long: Literal["cut", "refuse"] = "cut",
        vocab_size: int = 50257,
        batch_size: int = 32,
        eval_batch_size: int | None = None,
        temperature: float = 2.0,
        steps_per_epoch: int | None = None,
        num_workers: int = 0,
        val_fraction: float = 0.1,
        split_seed: int = 0,
        seed: int = 0,
        limit_train: int | None = None,
        limit_eval: int | None = None,
    ) -> None:
        modules = [
            open_text(
                name, root, tokenizer=tokenizer, source=source, max_len=max_len, too_long=too_long,
                vocab_size=vocab_size, batch_size=batch_size, eval_batch_size=eval_batch_size, num_workers=num_workers,
                val_fraction=val_fraction, split_seed=split_seed, seed=seed, limit_train=limit_train,
            )
            for name in tasks
        ]  # fmt: skip
        super().__init__(
            modules, batch_size, eval_batch_size, temperature, steps_per_epoch, num_workers, seed, limit_eval
        )

    def _lengths(self, parts: Mapping[str, Texts]) -> dict[str, Indices]:
        return {name: part.lengths for name, part in parts.items()}
