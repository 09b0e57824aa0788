"""Open tiny text sets."""

from pathlib import Path

from data_modules import TextDataModule
from data_modules.registry import TEXT_SETS
from data_modules.text.module import Texts
from data_modules.text.tokenizer import load_tokenizer
from tests.support.fake_text import SIZE


def opened(name: str, root: Path, vocabulary: Path, stages=("fit", "test"), **options) -> TextDataModule:
    module = TEXT_SETS[name](root=str(root), tokenizer=str(vocabulary), vocab_size=SIZE, batch_size=4, **options)
    for stage in stages:
        module.setup(stage)
    return module


def decoded(texts: Texts, vocabulary: Path) -> list[str]:
    tokenizer = load_tokenizer(vocabulary, SIZE)
    return [tokenizer.decode(texts[i][0]["input_ids"]) for i in range(len(texts))]
