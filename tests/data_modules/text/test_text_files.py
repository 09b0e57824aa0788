"""Plain texts of a user: every token is predicted once, and files are read in every form."""

import gzip
import json
from pathlib import Path

import pytest
import torch

from data_modules import TextFiles
from data_modules.module_checks import check_module
from data_modules.text import sequences
from data_modules.text.tokens import load_tokenizer
from lgx.core.task import IGNORE_TOKEN
from lgx.errors import UserError
from tests.support.extras import import_transformers
from tests.support.fake_text import SIZE

import_transformers()

DOCUMENTS = [f"the document {k} has {'é words ' * (k % 7)}" for k in range(60)]
FIRST = "\n\n".join(DOCUMENTS[:20]).encode()
OBJECTS = "".join(json.dumps({"text": text, "n": 3}) + "\n" for text in DOCUMENTS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def opened(root: Path, vocabulary: Path, stages=("fit", "test"), **options) -> TextFiles:
    known = {"max_len": 16, "batch_size": 4, "vocab_size": SIZE, **options}
    module = TextFiles(str(root), tokenizer=str(vocabulary), **known)
    for stage in stages:
        module.setup(stage)
    return module


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def predicted(loader) -> list[int]:
    """Targets of all positions, in order; inputs must be the tokens before them."""
    found: list[int] = []
    for batch in loader:
        for inputs, targets in zip(batch.inputs, batch.targets, strict=True):
            known = targets[targets != IGNORE_TOKEN]
            assert torch.equal(inputs[1 : len(known)], known[:-1])
            found += known.tolist()
    return found


def test_every_token_of_a_split_is_predicted_once_and_documents_are_in_one_split(tmp_path, vocabulary):
    module = opened(write(tmp_path / "set", {"a.jsonl": OBJECTS}), vocabulary)
    check_module(module, ["train", "val", "test"])
    tokenizer = load_tokenizer(vocabulary, SIZE)
    end = tokenizer.eos_token
    found = {}
    for split in ("val", "test"):
        tokens = predicted(module.eval_dataloader(split))
        found[split] = tokenizer.decode(tokens).split(end)  # the first document's end token has no prediction
        size = sum(len(text.encode()) for text in found[split])
        assert module.task.bytes_per_token[split == "test"] == pytest.approx(size / len(tokens))
    train = module.examples("train")
    ids = [token for k in range(len(train)) for token in train[k][1].tolist()]
    found["train"] = tokenizer.decode(ids).split(end)[:-1]  # the last one is cut
    assert all(len(train[k][0]) == 16 for k in range(len(train)))
    assert [len(found[split]) for split in ("val", "test")] == [6, 6]
    together = found["val"] + found["test"] + found["train"]
    assert len({*together}) == len(together)
    assert {*together} < {*DOCUMENTS}
    assert opened(tmp_path / "set", vocabulary, split_seed=1).fingerprint() != module.fingerprint()
    assert opened(tmp_path / "set", vocabulary, seed=1).fingerprint() == module.fingerprint()


def test_all_forms_of_files_give_the_same_sequences(tmp_path, vocabulary):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    forms = {
        "objects": {"x.jsonl": OBJECTS.replace("\n", "\n\n")},
        "compressed": {"x.jsonl.gz": gzip.compress(OBJECTS.encode())},
        "parts": {"x.txt": "\n\n \n" + "\r\n\n".join(DOCUMENTS)},
        "several": {
            "b.txt": "\n\n".join(DOCUMENTS[20:]),
            "a.txt.gz": gzip.compress(FIRST),
        },
        "rows": {"x.parquet": b""},
    }
    found = {}
    for form, files in forms.items():
        root = write(tmp_path / form, files)
        if form == "rows":
            parquet.write_table(pyarrow.table({"text": [*DOCUMENTS[:9], "", *DOCUMENTS[9:]]}), root / "x.parquet")
        module = opened(root, vocabulary, name="same")
        found[form] = (module.fingerprint(), module.task)
    assert all(each == found["objects"] for each in found.values())


def test_files_and_folders_of_a_split_are_that_split(tmp_path, vocabulary):
    files = {"train-00000.jsonl": OBJECTS, "validation/a/x.txt": "a validation text " * 9, "test.txt": "a test " * 9}
    root = write(tmp_path / "set", {**files, "README.txt": "not a training text"})
    module = opened(root, vocabulary, max_len=4)
    tokenizer = load_tokenizer(vocabulary, SIZE)
    for split, text in (("val", "a validation text " * 9), ("test", "a test " * 9)):
        assert tokenizer.decode(predicted(module.eval_dataloader(split))) == text
    total = sum(len(ids) + 1 for ids in tokenizer(DOCUMENTS, add_special_tokens=False)["input_ids"])
    assert module.task.num_train == (total - 1) // 4
    alone = opened(root / "test.txt", vocabulary, max_len=4, val_fraction=0, stages=("fit",))
    assert alone.task.name == "test"
    with pytest.raises(UserError, match=r"data test: the test split has 0 of 1 documents.*add a file test\.\*"):
        alone.setup("test")


def test_limits_and_processes_count_sequences(tmp_path, vocabulary):
    root = write(tmp_path / "set", {"a.jsonl": OBJECTS})
    whole, part = opened(root, vocabulary), opened(root, vocabulary, limit_train=5)
    every = [tuple(whole.examples("train")[k][0].tolist()) for k in range(whole.task.num_train)]
    assert part.task.num_train == 5
    assert {tuple(part.examples("train")[k][0].tolist()) for k in range(5)} < {*every}
    assert whole.count_train() == whole.task.num_train


def test_texts_are_tokenized_again_only_if_they_changed(tmp_path, vocabulary, cache, monkeypatch):
    root = write(tmp_path / "set", {"a.jsonl": OBJECTS})
    before = opened(root, vocabulary).fingerprint()
    counted, encode = [], sequences.encode
    monkeypatch.setattr(sequences, "encode", lambda *args: counted.append(1) or encode(*args))
    assert opened(root, vocabulary, max_len=16).fingerprint() == before
    assert not counted
    (file,) = (cache / "tokens").iterdir()
    whole = file.read_bytes()
    for damaged in (whole[:-7], whole[1:], b"", whole[:-1] + b"\x7f"):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match=r"\.tokens is incomplete or corrupted .*; remove it"):
            opened(root, vocabulary)
    write(root, {"a.jsonl": OBJECTS.replace("has", "had")})
    assert opened(root, vocabulary).fingerprint() != before
    assert len(counted) == 1
    monkeypatch.setattr(sequences, "encode", lambda *args: write(root, {"b.txt": "new"}) and encode(*args))
    write(root, {"b.txt": "a text that changes while it is read"})
    with pytest.raises(UserError, match=r"a file of set changed while it was read; start again"):
        opened(root, vocabulary)


BAD = {
    "an empty file": ({"a.jsonl": OBJECTS, "b.txt": " \n"}, r"b\.txt: holds no text"),
    "no file": ({"a.csv": "text"}, r"data.root: .* holds no training texts; expected files \.txt"),
    "another field": ({"a.jsonl": OBJECTS + '{"body": "x"}'}, r"a\.jsonl, line 61: .*'text'.*data.text_field"),
    "no object": ({"a.jsonl": "[1]"}, r"a\.jsonl, line 1: expected a text under 'text'"),
    "broken JSON": ({"a.jsonl": OBJECTS + "{"}, r"a\.jsonl, line 61: not valid"),
    "another encoding": ({"a.txt": b"a\n\ncaf\xe9"}, r"a\.txt, line 3: not UTF-8"),
    "half a character": ({"a.jsonl": r'{"text": "\ud800"}'}, r"a\.jsonl, line 1: .*half a surrogate pair"),
    "a broken archive": ({"a.txt.gz": gzip.compress(b"a b c")[:-9]}, r"a\.txt\.gz: "),
    "no archive": ({"a.txt.gz": b"text"}, r"a\.txt\.gz: "),
    "no table": ({"a.parquet": b"PAR1"}, r"a\.parquet: cannot be read"),
    "few tokens": ({"train.txt": "a b", "test.txt": "a", "val.txt": "b"}, "train split has 1 of 1 .*than one sequence"),
    "few documents": ({"a.txt": "a b"}, "the train split has 0 of 1 documents"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_named_in_one_sentence(tmp_path, vocabulary, cache, case):
    files, message = BAD[case]
    with pytest.raises(UserError, match=message) as caught:
        opened(write(tmp_path / "set", files), vocabulary, stages=("fit",))
    assert "\n" not in str(caught.value)
    assert not any(cache.rglob("*.tokens")) or "few" in case


def test_absent_texts_and_tokenizers_are_named(tmp_path, vocabulary):
    with pytest.raises(UserError, match=r"data.root: .*absent holds no training texts"):
        opened(tmp_path / "absent", vocabulary)
    root = write(tmp_path / "set", {"a.jsonl": OBJECTS})
    with pytest.raises(UserError, match=r"data.tokenizer: give the folder"):
        TextFiles(str(root))
    with pytest.raises(UserError, match=r"has 260 tokens, but vocab_size is 100"):
        opened(root, vocabulary, vocab_size=100)
    (tmp_path / "cache").write_text("a file in the place of the folder")
    with pytest.raises(UserError, match=r"cannot write .*tokens: .*; set LGX_CACHE to a folder with more space"):
        opened(root, vocabulary)
