"""Predictions of texts in files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor

from data_modules.text.rows import read_texts
from data_modules.text.tokenizer import load_tokenizer, padded
from lgx.artifacts.export.program import ExportedModel
from lgx.commands.words import tokenizer_of
from lgx.core.progress import tracked
from lgx.errors import UserError


def answered(
    files: Sequence[str], model: ExportedModel, source: str, tokenizer: str | None, columns: Sequence[str], size: int
) -> Iterator[tuple[range, Tensor]]:
    """Numbers and logits of the texts of files, (B, K) each, in the order of the rows.

    Args:
        files: Tables, or ``.txt`` files with a text in each line.
        model: The network.
        source: Its file or folder.
        tokenizer: Folder or name of its tokenizer; None for the one beside the network.
        columns: One column with texts, or the two of pairs.
        size: Texts of a batch.

    Raises:
        UserError: If there is no tokenizer, or a file cannot be read.
    """
    tokenizer = tokenizer or tokenizer_of(source)
    if tokenizer is None:
        raise UserError(f"{source}: has no tokenizer; give its folder or name with --tokenizer")
    words = load_tokenizer(tokenizer, model.task.vocab_size, "--tokenizer")
    names, rows = read_texts([Path(file) for file in files], [column.strip() for column in columns])
    length = min(words.model_max_length, model.task.max_len)
    for start in tracked(range(0, len(rows), size), "predicting", -(-len(rows) // size)):
        part = rows[start : start + size]
        texts = words(*(part[name] for name in names), truncation=True, max_length=length, return_attention_mask=False)
        if [] in texts["input_ids"]:
            row = start + texts["input_ids"].index([]) + 1
            raise UserError(f"{files[0]}, row {row}: an empty text has no token for this tokenizer; remove the row")
        count = len(part[names[0]])
        logits = model.logits(padded(words, [{key: texts[key][i] for key in texts} for i in range(count)]))
        yield range(start + 1, start + count + 1), logits
