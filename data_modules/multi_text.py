"""Several text sets as one: every batch holds texts of one task."""

from collections.abc import Mapping
from dataclasses import dataclass

from data_modules.catalog import open_text
from data_modules.options import TextOptions, copy_options
from data_modules.several import SeveralSets
from data_modules.splits import Indices
from data_modules.text_set import TextSet
from data_modules.tokens import Texts


@dataclass(eq=False, repr=False)
class MultiText(TextOptions, SeveralSets):
    """Trains on several text sets at once, see :class:`~data_modules.several.SeveralSets`.

    Batches hold texts of similar length, as those of one set do.

    Args:
        tasks: The text sets: names of ``lgx data list``.
        source: ``files`` or ``hub``, for all tasks, see :class:`~data_modules.options.TextOptions`.
        max_len: Longest text, in tokens, for all tasks.
        val_fraction: Share of a task's training texts held out for validation if it has no official split for it.
        split_seed: Seed of that split and of the limits.
        seed: Seed of draws and order.
        limit_train: Use only the first so many training examples of each task's class-stratified, seeded draw.
    """

    def open(self, name: str) -> TextSet:
        """The data module of a text set, with the options of this one."""
        module = open_text(name, self.root)
        copy_options(TextOptions, self, module)
        return module

    def _lengths(self, parts: Mapping[str, Texts]) -> dict[str, Indices]:
        return {name: part.lengths for name, part in parts.items()}
