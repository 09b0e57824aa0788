"""GPT-2's tokens: vocabularies, merges, and texts that are too long."""

import logging
import time

import numpy as np
import pytest
from huggingface_hub import constants

from data_modules import CoLA
from data_modules.text.rows import Row
from data_modules.text.tokens import END, load_tokenizer, tokenize
from lgx.errors import UserError
from lgx.host import hub
from tests.data_modules.text.text_helpers import opened
from tests.support.extras import import_transformers
from tests.support.fake_hub import CLOSED, silent_hub
from tests.support.fake_text import SIZE, write_sets, write_vocabulary
from tests.support.paths import SHARED

import_transformers()


def test_padding_never_occurs_in_a_text(text_root, vocabulary):
    tokenizer = load_tokenizer(vocabulary, SIZE)
    texts, _ = tokenize([Row((f"a{END}b",), 0, "file", 1)], tokenizer, 100)
    assert SIZE - 1 not in texts.ids
    module = opened("cola", text_root, vocabulary)
    for batch in module.train_dataloader():
        lengths = (batch.inputs != module.pad_id).sum(1)
        assert lengths.max() == batch.inputs.shape[1]
        assert all((row[length:] == module.pad_id).all() for row, length in zip(batch.inputs, lengths, strict=True))


def test_the_merges_are_applied(vocabulary):
    tokenizer = load_tokenizer(vocabulary, SIZE)
    texts, _ = tokenize([Row(("the the",), 0, "file", 1)], tokenizer, 100)
    assert texts.ids.tolist() == [257, 258]


def test_the_file_names_of_transformers_are_accepted(tmp_path):
    assert len(load_tokenizer(write_vocabulary(tmp_path, names=("vocab.json", "merges.txt")), SIZE)) == SIZE


def test_long_texts_are_cut_and_counted(text_root, vocabulary, caplog):
    with caplog.at_level(logging.INFO):
        module = opened("cola", text_root, vocabulary, stages=("test",), max_len=12)
    lengths = opened("cola", text_root, vocabulary, stages=("test",)).examples("test").lengths
    cut = int((lengths > 12).sum())
    assert 0 < cut < len(lengths)
    assert f"cola test: {cut} of {len(lengths)} texts were cut to data.max_len 12" in caplog.text
    np.testing.assert_array_equal(module.examples("test").lengths, lengths.clip(max=12))


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(10, 3, (7, 3)), (3, 10, (3, 7)), (20, 20, (5, 5)), (6, 5, (5, 5)), (4, 6, (4, 6)), (30, 1, (9, 1))],
)
def test_the_longer_text_of_a_pair_is_cut_first(vocabulary, first, second, kept):
    tokenizer = load_tokenizer(vocabulary, SIZE)
    texts, cut = tokenize([Row(("a" * first, "b" * second), 0, "file", 1)], tokenizer, 11)
    assert tokenizer.decode(texts.ids.tolist()) == "a" * kept[0] + "\n" + "b" * kept[1]
    assert cut == (first + second + 1 > 11)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("encoder.json", '{"<|endoftext|>": 0}', "lacks the token '!'"),
        ("encoder.json", None, "holds no encoder.json"),
        ("vocab.bpe", "#version: 0.2\nq u\n", "vocab.bpe is "),  # merges of another vocabulary
        ("vocab.bpe", None, "vocab.bpe cannot be read"),
        ("", None, "encoder.json has 260 tokens, but vocab_size is 50257"),
    ],
)
def test_a_damaged_absent_or_other_vocabulary_is_named(tmp_path, file, content, message):
    write_vocabulary(tmp_path)
    if content is not None:
        (tmp_path / file).write_text(content)
    elif file:
        (tmp_path / file).unlink()
    with pytest.raises(UserError) as caught:
        load_tokenizer(tmp_path, SIZE if file else 50257)
    assert message in str(caught.value)
    with pytest.raises(UserError, match=r"gpt2_vocab holds no encoder.json"):
        CoLA(root=str(write_sets(tmp_path / "data"))).setup("fit")


@pytest.mark.parametrize("address", [CLOSED, None])
def test_a_tokenizer_of_the_hub_without_a_network_ends_with_one_sentence(monkeypatch, address):
    monkeypatch.setattr(hub, "SECONDS", 1.0)
    with silent_hub() as silent:
        monkeypatch.setattr(constants, "ENDPOINT", address or silent)
        began = time.monotonic()
        with pytest.raises(UserError, match=r"data.tokenizer: someone/gpt2: is not in the cache.*vocab\.bpe$"):
            load_tokenizer("someone/gpt2", SIZE)
        assert time.monotonic() - began < 8


@pytest.mark.skipif(not (SHARED / "gpt2_vocab").is_dir(), reason=f"no real sets at {SHARED}")
def test_the_real_vocabulary_gives_gpt2s_tokens():
    tokenizer = load_tokenizer(SHARED / "gpt2_vocab", 50257)
    assert tokenizer("Hello world", add_special_tokens=False)["input_ids"] == [15496, 995]
