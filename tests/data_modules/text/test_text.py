"""Text sets: every official format, batches by length, and mistakes with file and row."""

import re

import numpy as np
import pytest
import torch

from data_modules.registry import TEXT_SETS
from lgx.errors import UserError
from tests.data_modules.text.text_helpers import decoded, opened
from tests.support.extras import import_transformers
from tests.support.fake_text import sentences, write_sets
from tests.support.paths import SHARED

import_transformers()

SPLITS = ("train", "val", "test")
SIZES = {"rte": (18, 2, 5), "mnli": (27, 3, 6), "imdb_subset": (20, 4, 6)}


def sizes(module):
    return [len(module.examples(split)) for split in SPLITS]


@pytest.mark.parametrize("name", [name for name in TEXT_SETS if not name.startswith("pocket_")])
def test_every_set_is_read_in_its_official_format_with_the_label_of_each_text(text_root, vocabulary, name):
    module, classes = opened(name, text_root, vocabulary), 3 if name == "mnli" else 2
    assert sizes(module) == [*SIZES.get(name, (18, 2, 6))]
    assert (module.task.kind, module.task.num_classes, module.task.num_train) == ("text", classes, sizes(module)[0])
    assert module.task.metric == {"cola": "mcc", "mrpc": "f1", "qqp": "f1"}.get(name, "acc")
    batch = next(iter(module.train_dataloader()))
    assert (batch.task, batch.inputs.dtype, batch.targets.shape) == (name, torch.int64, (4,))
    for split in SPLITS if name != "imdb" else ():
        texts = module.examples(split)
        numbers = [int(re.search(r"sentence (\d+)", text)[1]) for text in decoded(texts, vocabulary)]
        assert [number % classes for number in numbers] == texts.labels.tolist()


def test_the_files_of_glue_are_read_as_mrpc(tmp_path, vocabulary):
    (tmp_path / "mrpc").mkdir()
    lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
    lines += [f'{k % 2}\t{k}\t{k + 1}\tthe "sentence {k}\t the other' for k in range(20)]
    (tmp_path / "mrpc" / "train.tsv").write_text("\ufeff" + "\n".join(lines))
    (tmp_path / "mrpc" / "dev.tsv").write_text("\n".join(lines[:7]))
    (tmp_path / "mrpc" / "test.tsv").write_text("index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\ta\tb")
    module = opened("mrpc", tmp_path, vocabulary)
    assert sizes(module) == [18, 2, 6]
    assert module.examples("test").labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert decoded(module.examples("test"), vocabulary)[0] == 'the "sentence 0 the other'
    for split, count in (("train", 21), ("test", 9)):  # as the usual download leaves them: the publishers' files count
        (tmp_path / "mrpc" / f"msr_paraphrase_{split}.txt").write_text("\n".join([lines[0], *lines[1:] * 2][:count]))
    assert sizes(opened("mrpc", tmp_path, vocabulary)) == [18, 2, 8]


def test_rows_that_a_line_break_cut_are_left_out_and_counted(text_root, vocabulary, caplog):
    with caplog.at_level("INFO"):
        texts = decoded(opened("qqp", text_root, vocabulary).examples("train"), vocabulary)
    assert "train.tsv: 2 incomplete rows" in caplog.text
    assert all(text.startswith('"""the') for text in texts)


def test_validation_is_held_out_of_train_and_never_of_test(text_root, vocabulary):
    module = opened("cola", text_root, vocabulary, val_fraction=0.3)
    train, val = (set(decoded(module.examples(split), vocabulary)) for split in ("train", "val"))
    assert (len(train), len(val), train | val) == (14, 6, set(sentences(20)))
    again = opened("cola", text_root, vocabulary, stages=("validate",), val_fraction=0.3, seed=5)
    assert set(decoded(again.examples("val"), vocabulary)) == val


def test_other_files_of_a_split_are_used_where_they_are(vocabulary, tmp_path):
    write_sets(tmp_path)
    (tmp_path / "rte/val.tsv").write_text("7\tone\t two\tentailment\n")  # without a header line
    assert decoded(opened("rte", tmp_path, vocabulary).examples("val"), vocabulary) == ["one two"]
    (tmp_path / "sst2/test.tsv").write_text("sentence\tlabel\ntested\t1\n")
    assert sizes(opened("sst2", tmp_path, vocabulary)) == [20, 6, 1]
    for old, new in (("in_domain_train", "train"), ("in_domain_dev", "dev")):  # GLUE's own form
        (tmp_path / f"cola/raw/{old}.tsv").rename(tmp_path / f"cola/{new}.tsv")
    (tmp_path / "cola/raw/out_of_domain_dev.tsv").unlink()
    (tmp_path / "cola/raw").rmdir()
    (tmp_path / "cola/test.tsv").write_text("index\tsentence\n0\tno label\n")
    assert sizes(opened("cola", tmp_path, vocabulary)) == [18, 2, 4]


def test_the_hub_gives_the_same_examples(text_root, vocabulary, monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked, load = [], datasets.load_dataset

    def load_dataset(path, name=None, split=None, **options):
        if path != "nyu-mll/glue":
            return load(path, name=name, split=split, **options)
        asked.append((name, split))
        n = 20 if split == "train" else 5
        columns = {"sentence1": sentences(n), "sentence2": ["hypothesis"] * n, "label": [k % 2 for k in range(n)]}
        return datasets.Dataset.from_dict(columns)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    from_hub, files = (opened("rte", text_root, vocabulary, source=source) for source in ("hub", "files"))
    for split in SPLITS:
        assert [text for text, _ in from_hub.examples(split)] == [text for text, _ in files.examples(split)]
        np.testing.assert_array_equal(from_hub.examples(split).labels, files.examples(split).labels)
    assert set(asked) == {("rte", "train"), ("rte", "validation")}
    mrpc = opened("mrpc", text_root, vocabulary, source="hub")
    assert sizes(mrpc) == [20, 5, 5]
    mrpc.prepare_data()


def test_what_the_hub_lacks_ends_with_one_sentence(text_root, vocabulary, monkeypatch):
    datasets = pytest.importorskip("datasets")

    def load_dataset(*args, **kwargs):
        raise ConnectionError("Couldn't reach\nthe set")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(UserError, match=r"glue \(cola\) train: could not be loaded .*reach.*source files"):
        opened("cola", text_root, vocabulary, source="hub")
    given = datasets.Dataset.from_dict({"sentence": ["a", "b"], "label": [0, -1]})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: given)
    with pytest.raises(UserError, match=r"glue train, row 2: label '-1', expected 0 or 1"):
        opened("cola", text_root, vocabulary, source="hub")


SST2, IMDB = "sst2/train.tsv", "imdb_subset/train.jsonl"
BAD = {
    "a row with too few columns": (SST2, "sentence\tlabel\ngood\t1\nbad\n", "row 2: label '', expected 0 or 1"),
    "a row with too many columns": (
        SST2,
        "sentence\tlabel\ngood\t1\nbad\t1\t1\n",
        "fields in line 3, saw 3",
    ),
    "an unknown label": (SST2, "sentence\tlabel\na\t2\n", "row 1: label '2', expected 0 or 1"),
    "no text": (IMDB, '{"label": 1, "text": "a"}\n{"label": 1}\n', "row 2: has no text in column 'text'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_file_is_named_with_its_row(tmp_path, vocabulary, case):
    file, content, message = BAD[case]
    path = write_sets(tmp_path) / file
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        opened(file.split("/")[0], tmp_path, vocabulary)
    sentence = str(caught.value)
    assert (str(path) in sentence, message in sentence, "\n" in sentence) == (True, True, False), sentence


def test_absent_files_say_what_belongs_where(tmp_path, vocabulary):
    with pytest.raises(UserError, match=r"cola: nothing at .*cola; unpack cola_public .*data.source to hub"):
        opened("cola", tmp_path, vocabulary)
    (tmp_path / "sst2").mkdir()
    with pytest.raises(UserError, match=r"sst2/train.tsv does not exist; place train.tsv and dev.tsv"):
        opened("sst2", tmp_path, vocabulary)
    (tmp_path / "imdb/train/neg").mkdir(parents=True)
    with pytest.raises(UserError, match=r"imdb/train: expected folders neg and pos with \*\.txt files"):
        opened("imdb", tmp_path, vocabulary)


def test_evaluation_sees_every_text_once_and_predictions_come_in_order(text_root, vocabulary):
    module = opened("cola", text_root, vocabulary)

    def read(loader):
        return [ids[mask == 1].tolist() for batch in loader for ids, mask, _ in batch.inputs]

    texts = module.examples("test")
    stored = [texts[i][0]["input_ids"] for i in range(len(texts))]
    seen = read(module.test_dataloader())
    assert sorted(seen) == sorted(stored)
    assert read(opened("cola", text_root, vocabulary, seed=5).test_dataloader()) == seen
    assert read(module.predict_dataloader()) == [stored[i] for i in module.predict_indices]


@pytest.mark.skipif(not (SHARED / "gpt2_vocab").is_dir(), reason=f"no real sets at {SHARED}")
@pytest.mark.parametrize("name", ["cola", "mrpc", "rte"])
def test_the_real_sets_have_their_official_sizes(name):
    module = TEXT_SETS[name](root=str(SHARED))
    module.setup("fit")
    module.setup("test")
    expected = (2_127, 363, 277) if name == "rte" else module.info.sizes  # this copy of RTE has a val.tsv
    assert sizes(module) == [*expected]
    assert all(module.examples(split).lengths.max() <= 128 for split in SPLITS)
