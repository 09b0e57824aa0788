"""Plain texts of a user: every token is predicted once, and files are read in every form."""

import gzip
import json
from itertools import chain
from pathlib import Path

import pytest
import torch

from data_modules import TextFiles
from data_modules.text import files as text_files
from data_modules.text.rows import split_files
from data_modules.text.tokenizer import load_tokenizer
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
        for (ids, mask, _), targets in zip(batch.inputs, batch.targets, strict=True):
            known = targets[targets != IGNORE_TOKEN]
            assert torch.equal(ids[1 : len(known)], known[:-1])
            assert mask.tolist() == [1] * len(known) + [0] * (len(mask) - len(known))
            found += known.tolist()
    return found


def test_every_token_of_a_split_is_predicted_once_and_documents_are_in_one_split(tmp_path, vocabulary):
    module = opened(write(tmp_path / "set", {"a.jsonl": OBJECTS}), vocabulary)
    tokenizer = load_tokenizer(vocabulary, SIZE)
    end = tokenizer.eos_token
    found = {}
    for split in ("val", "test"):
        tokens = predicted(module.eval_dataloader(split))
        found[split] = tokenizer.decode(tokens).split(end)  # the first document's end token has no prediction
        size = sum(len(text.encode()) for text in found[split])
        assert module.task.bytes_per_token[split == "test"] == pytest.approx(size / len(tokens))
    train = module.examples("train")
    found["train"] = tokenizer.decode([token for _, following in train for token in following]).split(end)[:-1]
    assert all(len(ids) == 16 for ids, _ in train)  # so the last document is cut
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
        "list": {"x.json": json.dumps([{"text": text} for text in DOCUMENTS])},
        "parts": {"x.txt": "\n\n\n\n" + "\r\n\r\n".join(DOCUMENTS)},
        "several": {"b.txt": "\n\n".join(DOCUMENTS[20:]), "a.txt.gz": gzip.compress(FIRST)},
        "table": {"x.csv": "n,text\n" + "".join(f'{k},"{text}"\n' for k, text in enumerate(DOCUMENTS))},
        "rows": {"x.parquet": b""},
    }
    found = {}
    for form, files in forms.items():
        root = write(tmp_path / form, files)
        if form == "rows":
            parquet.write_table(pyarrow.table({"text": [*DOCUMENTS[:9], "", *DOCUMENTS[9:]]}), root / "x.parquet")
        module = opened(root, vocabulary, name="same")
        found[form] = (module.fingerprint(), module.task)
    assert [form for form, each in found.items() if each != found["objects"]] == []


def test_a_word_in_a_path_names_its_split(tmp_path, capsys):
    named = {
        "train": ["TRAIN.jsonl.gz", "a/training-2.csv", "train-00000-of-00002.parquet"],
        "val": ["dev1.csv", "sub/Valid_1.tsv", "val/x.txt", "validation.json"],
        "test": ["eval.json", "my test.csv", "test/train.txt"],
    }
    others = ["README.txt", "contest.csv", "latest/x.txt"]
    write(tmp_path, dict.fromkeys([*chain(*named.values()), *others, "notes.md", "val.py"], "x"))
    found = {split: [str(file.relative_to(tmp_path)) for file in part] for split, part in split_files(tmp_path).items()}
    assert found == named
    assert "left out: README.txt, contest.csv, x.txt\n" in capsys.readouterr().out
    for name in named["train"]:
        (tmp_path / name).unlink()
    assert [str(file.relative_to(tmp_path)) for file in split_files(tmp_path)["train"]] == others
    assert capsys.readouterr().out == ""
    with pytest.raises(UserError, match=r"data.root: .*test\.txt: all names of files say test; name one train"):
        split_files(write(tmp_path / "one", {"test.txt": "x"}) / "test.txt")


def test_files_of_a_split_are_that_split(tmp_path, vocabulary):
    files = {"train-00000.jsonl": OBJECTS, "validation/a/x.txt": "a validation text " * 9, "test.txt": "a test " * 9}
    module = opened(write(tmp_path / "set", {**files, "README.txt": "not a training text"}), vocabulary, max_len=4)
    tokenizer = load_tokenizer(vocabulary, SIZE)
    for split, text in (("val", "a validation text " * 9), ("test", "a test " * 9)):
        assert tokenizer.decode(predicted(module.eval_dataloader(split))) == text
    total = sum(len(ids) + 1 for ids in tokenizer(DOCUMENTS, add_special_tokens=False)["input_ids"])
    assert module.task.num_train == module.count_train() == (total - 1) // 4
    part = opened(tmp_path / "set", vocabulary, max_len=4, limit_train=5)
    assert part.task.num_train == 5
    whole = [ids for ids, _ in module.examples("train")]
    assert all(ids in whole for ids, _ in part.examples("train"))
    alone = opened(tmp_path / "set/train-00000.jsonl", vocabulary, val_fraction=0, stages=("fit",))
    assert alone.task.name == "train-00000"
    with pytest.raises(UserError, match=r"the test split has 0 of 60 documents"):
        alone.setup("test")


def test_texts_are_tokenized_again_only_if_they_changed(tmp_path, vocabulary, cache, monkeypatch):
    root = write(tmp_path / "set", {"a.jsonl": OBJECTS})
    before = opened(root, vocabulary).fingerprint()
    counted, encode = [], text_files._with_end
    monkeypatch.setattr(text_files, "_with_end", lambda *args, **values: counted.append(1) or encode(*args, **values))
    assert opened(root, vocabulary).fingerprint() == before
    assert not counted
    tokens, *_ = cache.rglob("cache-*.arrow")
    whole = tokens.read_bytes()
    for damaged in (whole[:-7], whole[100:], b""):
        tokens.write_bytes(damaged)
        with pytest.raises(UserError, match=r"incomplete or corrupted.*remove"):
            opened(root, vocabulary)
    write(root, {"a.jsonl": OBJECTS.replace("has", "had")})
    assert opened(root, vocabulary).fingerprint() != before
    assert len(counted) == 1


BAD = {
    "no text": ({"b.csv": "text\n"}, r"b\.csv: has no rows"),
    "broken JSON": ({"a.jsonl": OBJECTS + "{"}, r"a\.jsonl: cannot be read .*row 60"),
    "another encoding": ({"a.txt": b"a\n\ncaf\xe9"}, r"a\.txt: cannot be read .*utf-8"),
    "a broken archive": ({"a.txt.gz": gzip.compress(b"a b c")[:-9]}, r"a\.txt\.gz: cannot be read"),
    "no table": ({"a.parquet": b"PAR1"}, r"a\.parquet: cannot be read"),
    "no file": ({"a.md": "text"}, r"data.root: .* has no training texts; expected files that end in \.txt"),
    "an open quotation mark": ({"a.tsv": 'text\tb\n"good\t0\nbad\t1\n"fine\t1\n'}, r"a\.tsv: .*begins with .*good"),
    "few tokens": ({"train.txt": "a b", "test.txt": "a", "val.txt": "b"}, "train split has 1 of 1 .*than one sequence"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_named_in_one_sentence(tmp_path, vocabulary, case):
    files, message = BAD[case]
    with pytest.raises(UserError, match=message) as caught:
        opened(write(tmp_path / "set", files), vocabulary, stages=("fit",))
    assert "\n" not in str(caught.value)


def test_absent_texts_tokenizers_and_folders_are_named(tmp_path, vocabulary, monkeypatch):
    with pytest.raises(UserError, match=r"data.root: .*absent does not exist"):
        opened(tmp_path / "absent", vocabulary)
    root = write(tmp_path / "set", {"a.jsonl": OBJECTS})
    with pytest.raises(UserError, match=r"data.tokenizer: .*gpt2_vocab does not exist; give the folder"):
        TextFiles(str(root)).setup("fit")
    monkeypatch.setenv("LGX_CACHE", str(root / "a.jsonl"))
    with pytest.raises(UserError, match=r"set LGX_CACHE to a folder"):
        opened(root, vocabulary)
