"""Tokenizers of any network's folder: padding, sizes, texts that are too long, and vocabularies that do not fit."""

import json
import logging

import numpy as np
import pytest

from data_modules.registry import TEXT_SETS
from data_modules.text.tokenizer import end_of, load_tokenizer, padded, size_of
from lgx.errors import UserError
from tests.data_modules.text.text_helpers import opened
from tests.support.extras import import_transformers
from tests.support.fake_text import END, SIZE, write_vocabulary
from tests.support.tokenizers_of_models import write_tokenizer

import_transformers()
FORMS = {"bert": "[PAD] [SEP]", "llama": "</s> </s>", "bare": "</s> </s>"}
"""The token that pads and the one between documents."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {form: write_tokenizer(root / form, form) for form in FORMS}


@pytest.mark.parametrize("form", FORMS)
def test_texts_are_padded_with_the_tokenizers_own_token_or_its_end_and_the_mask_hides_it(folders, form):
    tokenizer = load_tokenizer(folders[form], 400)
    pad, end = tokenizer.convert_tokens_to_ids(FORMS[form].split())
    assert (tokenizer.pad_token_id, end_of(tokenizer)) == (pad, end)
    texts = [tokenizer(*each, return_attention_mask=False) for each in (("the cat </s>", "a dog"), ("the",))]
    lengths = [len(text["input_ids"]) for text in texts]
    ids, mask, types = padded(tokenizer, texts).unbind(1)
    assert mask.sum(1).tolist() == lengths
    assert [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)] == [t["input_ids"] for t in texts]
    assert set(ids[1, lengths[1] :].tolist()) == {pad}
    assert types[0].tolist() == texts[0].get("token_type_ids", [0] * lengths[0])
    assert types.any() == (form == "bert")


def test_the_merges_are_applied_and_the_end_token_of_a_text_is_a_token(tmp_path, vocabulary):
    files = write_vocabulary(tmp_path, names=("vocab.json", "merges.txt"))
    (files / "config.json").write_text('{"model_type": "gpt2"}')
    for folder in (vocabulary, files):
        tokenizer = load_tokenizer(folder, SIZE)
        assert tokenizer(f"the the{END}")["input_ids"] == [257, 258, SIZE - 1]
        assert len(tokenizer) == SIZE


def test_sizes_that_are_left_out_are_those_of_the_tokenizers_folder(tmp_path, folders, vocabulary):
    def sizes(folder, **options):
        task = TEXT_SETS["rte"](root=str(tmp_path), tokenizer=str(folder), **options).task
        return task.vocab_size, task.max_len

    assert sizes(folders["llama"]) == (size_of(load_tokenizer(folders["llama"])), 128)
    assert sizes(vocabulary) == (SIZE, 128)
    model = write_tokenizer(tmp_path / "model", "bert")
    for key, positions, length in (("n_positions", 512, 128), ("max_position_embeddings", 64, 64)):
        (model / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": 1000, key: positions}))
        assert sizes(model) == (1000, length)
    assert sizes(model, vocab_size=500, max_len=70) == (500, 70)


def test_long_texts_are_cut_and_counted(text_root, vocabulary, folders, caplog):
    with caplog.at_level(logging.INFO):
        module = opened("cola", text_root, vocabulary, stages=("test",), max_len=12)
    lengths = opened("cola", text_root, vocabulary, stages=("test",)).examples("test").lengths
    cut = int((lengths > 12).sum())
    assert 0 < cut < len(lengths)
    assert f"cola test: {cut} of {len(lengths)} texts were cut to data.max_len 12" in caplog.text
    np.testing.assert_array_equal(module.examples("test").lengths, lengths.clip(max=12))
    with pytest.raises(UserError, match=r"data.max_len: the special tokens leave no room for a text in 3 tokens"):
        opened("rte", text_root, folders["bert"], max_len=3)


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("encoder.json", '{"<|endoftext|>": 0}', "out of vocabulary"),
        ("vocab.bpe", "#version: 0.2\nq u\n", "out of vocabulary"),  # merges of another vocabulary
        ("tokenizer.json", "{}", ""),
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": ["evil.Words", null]}}', "contains custom code"),
    ],
)
def test_a_damaged_absent_or_foreign_file_ends_with_one_sentence(tmp_path, file, content, reason):
    is_gpt2 = file in ("encoder.json", "vocab.bpe")
    folder = write_vocabulary(tmp_path / "words") if is_gpt2 else write_tokenizer(tmp_path / "words", "bert")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        UserError, match=rf"data.tokenizer: .*words: transformers cannot load .*{reason}.*; give"
    ) as caught:
        load_tokenizer(folder, 400)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
