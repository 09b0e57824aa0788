"""Tokenizers of any model's folder: templates, padding, and vocabularies that do not fit."""

import json

import pytest
import torch

from data_modules.registry import TEXT_SETS
from data_modules.text.rows import Row
from data_modules.text.tokens import end_of, load_tokenizer, pad_of, size_of, tokenize
from lgx.errors import UserError
from tests.support.extras import import_transformers
from tests.support.fake_text import SIZE, write_vocabulary
from tests.support.tokenizers_of_models import write_tokenizer

import_transformers()

FORMS = {"bert": "[CLS] {} [SEP] {} [SEP]", "llama": "<s> {} <s> {}", "bare": "{} Ċ {}"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {form: write_tokenizer(root / form, form) for form in FORMS}


@pytest.mark.parametrize("form", FORMS)
def test_texts_have_the_template_of_their_tokenizer(folders, form):
    tokenizer = load_tokenizer(folders[form], 400)
    first, second, written = "the cat", "a dog", "a [SEP] </s>"
    rows = [Row((first, second), 0, "file", 1), Row((written, second), 1, "file", 2)]
    ids, cut = tokenize(rows, tokenizer, 100)
    words = [" ".join(tokenizer.tokenize(text)) for text in (first, second, written)]
    found = [" ".join(tokenizer.convert_ids_to_tokens(ids[k][0].tolist())) for k in (0, 1)]
    assert found == [FORMS[form].format(words[0], words[1]), FORMS[form].format(words[2], words[1])]
    assert (cut, ids.labels.tolist()) == (0, [0, 1])
    # A special token that is written in a text is not one.
    ends = [token for token in (tokenizer.sep_token_id, tokenizer.eos_token_id) if token is not None]
    assert sum(token in ends for token in ids[1][0].tolist()) == (2 if form == "bert" else 0)


@pytest.mark.parametrize("form", FORMS)
def test_long_texts_keep_the_template_and_the_longer_one_is_cut_first(folders, form):
    tokenizer = load_tokenizer(folders[form], 400)
    rows = [Row(("cat " * 30, "dog"), 0, "file", 1), Row(("cat", "dog"), 1, "file", 2)]
    whole, _ = tokenize(rows, tokenizer, 1000)
    ids, cut = tokenize(rows, tokenizer, 20)
    assert (cut, ids.lengths.tolist()) == (1, [20, whole.lengths[1]])
    last = len(tokenizer.tokenize("dog")) + (1 if form == "bert" else 0)
    assert ids[0][0][-last:].tolist() == whole[0][0][-last:].tolist()
    single, _ = tokenize([Row(("cat " * 30,), 0, "file", 1)], tokenizer, 20)
    assert single.lengths.tolist() == [20]
    if form == "bert":
        assert single[0][0][-1] == tokenizer.sep_token_id
        with pytest.raises(UserError, match=r"data.max_len: 3 tokens of the template leave no room for a text in 3"):
            tokenize(rows, tokenizer, 3)


def test_padding_is_the_tokenizers_own_or_its_end(folders, text_root):
    tokenizers = {form: load_tokenizer(folder, 400) for form, folder in folders.items()}
    assert pad_of(tokenizers["bert"]) == tokenizers["bert"].convert_tokens_to_ids("[PAD]") == 0
    assert pad_of(tokenizers["llama"]) == end_of(tokenizers["llama"]) == tokenizers["llama"].eos_token_id == 1
    assert end_of(tokenizers["bert"]) == tokenizers["bert"].sep_token_id
    module = TEXT_SETS["rte"](root=str(text_root), tokenizer=str(folders["bert"]), vocab_size=400, batch_size=4)
    assert (module.task.pad_id, module.task.vocab_size) == (0, 400)
    module.setup("fit")
    batch = next(iter(module.train_dataloader()))
    separators = (batch.inputs == tokenizers["bert"].sep_token_id).sum(1)
    assert torch.equal(separators, torch.full((4,), 2))
    assert (batch.inputs[:, 0] == tokenizers["bert"].cls_token_id).all()


def test_a_vocabulary_may_be_smaller_than_the_models_but_not_larger(folders):
    size = len(load_tokenizer(folders["llama"], 100_000))
    assert len(load_tokenizer(folders["llama"], size)) == size
    with pytest.raises(UserError, match=rf"data.tokenizer: .*json has {size} tokens, but vocab_size is {size - 1}; "):
        load_tokenizer(folders["llama"], size - 1)


def test_sizes_that_are_left_out_are_those_of_the_tokenizers_folder(tmp_path, folders, vocabulary):
    def sizes(folder, **options):
        task = TEXT_SETS["rte"](root=str(tmp_path), tokenizer=str(folder), **options).task
        return task.vocab_size, task.max_len, task.pad_id

    assert sizes(folders["llama"]) == (size_of(load_tokenizer(folders["llama"], None)), 128, 1)
    assert sizes(vocabulary) == (SIZE, 128, SIZE - 1)
    model = write_tokenizer(tmp_path / "model", "bert")
    for key, positions, length in (("n_positions", 512, 128), ("max_position_embeddings", 64, 64)):
        (model / "config.json").write_text(json.dumps({"vocab_size": 1000, key: positions}))
        assert sizes(model) == (1000, length, 0)
    assert sizes(model, vocab_size=500, max_len=70) == (500, 70, 0)
    (model / "config.json").write_text(json.dumps({"vocab_size": 10}))
    with pytest.raises(UserError, match=r"tokens, but vocab_size is 10; give the model's number of tokens"):
        sizes(model)


def test_gpt2s_files_go_first_but_not_those_of_others(tmp_path):
    folder = write_tokenizer(tmp_path / "model", "llama")
    write_vocabulary(folder, names=("vocab.json", "merges.txt"))
    assert len(load_tokenizer(folder, SIZE)) == SIZE
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({**vocabulary, "more": SIZE}))
    assert load_tokenizer(folder, 400).eos_token == "</s>"


@pytest.mark.parametrize("content", [b"{}", b"\xff", b'{"model": {"type": "BPE"}}', b"[" * 10_000])
def test_a_damaged_description_ends_with_one_sentence(tmp_path, content):
    folder = write_tokenizer(tmp_path / "model", "bert")
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(UserError, match=r"data.tokenizer: .*tokenizer.json is incomplete or corrupted .*copy it again"):
        load_tokenizer(folder, 400)
    (folder / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(UserError, match=r"tokenizer\.json is |tokenizer_config\.json"):
        load_tokenizer(folder, 400)
