"""Pocket texts: generated, the same every time, and learnable."""

import re
from collections import Counter

import pytest

from data_modules.catalog import open_text
from data_modules.registry import TEXT_SETS
from data_modules.suites.pocket.texts import KIND, NOUNS, QUALITIES, SIZES, UNKIND, VERBS, VOCAB_SIZE
from lgx.errors import UserError
from tests.support.command_line import lgx
from tests.support.extras import import_transformers

import_transformers()
NAMES = [name for name in TEXT_SETS if name.startswith("pocket_")]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name in NAMES:
        done = lgx("data", "prepare", name, "--root", folder)
        assert done.code == 0, done.err
        assert f"{name}: 1,200 train, 300 val, 600 test texts" in done.out
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_balanced_and_has_no_text_in_two_splits(root, name):
    module = TEXT_SETS[name](root=str(root), vocab_size=VOCAB_SIZE)
    rows = {split: module.read(split) for split in SIZES}
    assert {split: len(part) for split, part in rows.items()} == SIZES
    for part in rows.values():
        assert set(Counter(part["label"]).values()) == {len(part) // 2}
    texts = {(row["text"], row.get("text_pair")) for part in rows.values() for row in part}
    assert len(texts) == sum(SIZES.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes(root, name, tmp_path):
    TEXT_SETS[name](root=str(tmp_path), vocab_size=VOCAB_SIZE).prepare_data()
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(files) == 5
    for path in files:
        assert (tmp_path / path).read_bytes() == (root / path).read_bytes()


def test_classes_are_those_of_most_clauses_of_a_review_and_of_verbs_that_agree(root):
    for row in open_text("pocket_reviews", str(root)).read("train"):
        clauses = row["text"].split(" and ")
        assert len(clauses) in (3, 5)
        kind = [(clause.split()[-1] in KIND) != (" not " in clause) for clause in clauses]
        assert all(clause.split()[-1] in KIND + UNKIND for clause in clauses)
        assert row["label"] == (sum(kind) > len(kind) / 2)
    noun, verb, quality = (f"({'|'.join(words)})" for words in (NOUNS, VERBS, QUALITIES))
    pattern = f"(the|every)( {quality})? {noun} {verb}s the {noun}|the( {quality})? {noun}s {verb} the {noun}"
    for row in open_text("pocket_grammar", str(root)).read("test"):
        assert bool(re.fullmatch(pattern, row["text"])) == (row["label"] == 1), row


def test_impossible_options_end_with_one_sentence(root, tmp_path):
    with pytest.raises(UserError, match=f"lgx data prepare pocket_grammar --root {tmp_path}"):
        open_text("pocket_grammar", str(tmp_path)).read("train")
    with pytest.raises(UserError, match="generated here"):
        TEXT_SETS["pocket_grammar"](root=str(tmp_path), source="hub").prepare_data()
    with pytest.raises(UserError, match="has 1024 tokens, but the network knows 1000"):
        TEXT_SETS["pocket_grammar"](root=str(root), vocab_size=1000).setup("test")
