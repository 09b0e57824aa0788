"""A few texts of a folder, for initializers that measure a network on data."""

from itertools import chain, islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from data_modules.text.documents import documents, find_files
from data_modules.text.rows import Row
from data_modules.text.tokens import load_tokenizer, tokenize
from lgx.architectures import HFArchitecture
from lgx.initialization.width import evenly_spaced

_LONGEST, _MOST = 128, 10_000
"""Tokens that are read of a text; documents from which the texts are taken."""


def sample_texts(place: str, count: int, architecture: HFArchitecture, tokenizer: str) -> Tensor:
    """Read texts at even distances in the first 10,000 documents of the training files of a folder.

    Args:
        place: Folder or file of texts, see :func:`~data_modules.text.documents.find_files`.
        count: How many texts; fewer where there are fewer.
        architecture: The network that reads them.
        tokenizer: Folder with its tokenizer.

    Returns:
        Token ids, the first 128 of each text, padded on the right, (N, L).
    """
    words = load_tokenizer(Path(tokenizer), architecture.vocab_size, "source")
    files = find_files(Path(place), "data")["train"]
    texts = list(islice(chain.from_iterable(documents(path, "text") for path in files), _MOST))
    chosen = [Row((texts[i],), 0, place, i) for i in evenly_spaced(len(texts), min(count, len(texts)))]
    ids = tokenize(chosen, words, min(_LONGEST, architecture.most_tokens))[0]
    return pad_sequence([torch.as_tensor(ids[i][0]) for i in range(len(ids))], True, architecture.pad_id)
