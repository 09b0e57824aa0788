"""Text sets: every official format, GPT-2's tokens, batches by length, and mistakes with file and line."""

import logging
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, matthews_corrcoef

from data_modules.catalogue import TEXT_SETS
from data_modules.glue import CoLA, IMDBSubset
from data_modules.text import LengthBatchSampler, TextDataModule
from data_modules.text_files import Row, read_lines
from data_modules.tokens import END, Texts, load_tokenizer, tokenize
from lgx.components.text_metrics import Matthews, PositiveF1
from lgx.errors import UserError
from tests.support.fake_text import SIZE, sentences, write_sets, write_vocabulary
from tests.support.paths import SHARED

pytest.importorskip("transformers", reason="needs the nlp extra: pip install 'lgx[nlp]'")


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary in GPT-2's format: all bytes, three merges, end of text."""
    return write_vocabulary(tmp_path_factory.mktemp("gpt2_vocab"))


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sets(tmp_path_factory.mktemp("texts"))


def opened(name: str, root: Path, vocabulary: Path, stages=("fit", "test"), **options) -> TextDataModule:
    module = TEXT_SETS[name](root=str(root), tokenizer=str(vocabulary), vocab_size=SIZE, batch_size=4, **options)
    for stage in stages:
        module.setup(stage)
    return module


def decoded(texts: Texts, vocabulary: Path) -> list[str]:
    tokenizer = load_tokenizer(vocabulary, SIZE)
    return [tokenizer.decode(texts[i][0].tolist()) for i in range(len(texts))]


# -- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("cola", (18, 2, 6)),
        ("mrpc", (18, 2, 6)),
        ("rte", (18, 2, 5)),
        ("sst2", (18, 2, 6)),
        ("imdb", (18, 2, 6)),
        ("imdb_subset", (20, 4, 6)),
    ],
)
def test_every_set_is_read_in_its_official_format(root, vocabulary, name, sizes):
    module = opened(name, root, vocabulary)
    assert tuple(len(module.examples(split)) for split in ("train", "val", "test")) == sizes
    assert (module.task.kind, module.task.num_classes, module.task.num_train) == ("text", 2, sizes[0])
    assert module.task.metric == {"cola": "mcc", "mrpc": "f1"}.get(name, "acc")
    batch = next(iter(module.train_dataloader()))
    assert (batch.task, batch.inputs.dtype, batch.targets.shape) == (name, torch.int64, (4,))


def test_labels_and_texts_stay_together(root, vocabulary):
    for name in ("cola", "sst2", "imdb_subset"):
        module = opened(name, root, vocabulary)
        for split in ("train", "val"):
            texts = module.examples(split)
            numbers = [int(text.split()[-1]) for text in decoded(texts, vocabulary)]
            assert [number % 2 for number in numbers] == texts.labels.tolist()


def test_pairs_are_joined_by_a_line_break_and_quotation_marks_are_text(root, vocabulary):
    texts = decoded(opened("mrpc", root, vocabulary).examples("test"), vocabulary)
    assert texts[0] == '"the sentence 0\nthe other'


def test_validation_is_held_out_of_train_and_never_of_test(root, vocabulary):
    module = opened("cola", root, vocabulary, val_fraction=0.3)
    train, val = (set(decoded(module.examples(split), vocabulary)) for split in ("train", "val"))
    assert len(train) == 14
    assert len(val) == 6
    assert train | val == set(sentences(20))
    again = opened("cola", root, vocabulary, stages=("validate",), val_fraction=0.3, seed=5)
    assert set(decoded(again.examples("val"), vocabulary)) == val


def test_a_file_for_validation_is_used_where_there_is_one(root, vocabulary, tmp_path):
    write_sets(tmp_path)
    (tmp_path / "rte/val.tsv").write_text("7\tone\ttwo\tentailment\n")  # without a line of names
    assert decoded(opened("rte", tmp_path, vocabulary).examples("val"), vocabulary) == ["one\ntwo"]
    (tmp_path / "sst2/test.tsv").write_text("sentence\tlabel\ntested\t1\n")
    module = opened("sst2", tmp_path, vocabulary)
    assert [len(module.examples(split)) for split in ("train", "val", "test")] == [20, 6, 1]


def test_glues_own_form_of_cola_is_read(tmp_path, vocabulary):
    write_sets(tmp_path)
    for old, new in (("in_domain_train", "train"), ("in_domain_dev", "dev")):
        (tmp_path / f"cola/raw/{old}.tsv").rename(tmp_path / f"cola/{new}.tsv")
    (tmp_path / "cola/raw/out_of_domain_dev.tsv").unlink()
    (tmp_path / "cola/raw").rmdir()
    (tmp_path / "cola/test.tsv").write_text("index\tsentence\n0\tno label\n")
    module = opened("cola", tmp_path, vocabulary)
    assert [len(module.examples(split)) for split in ("train", "val", "test")] == [18, 2, 4]


def test_the_hub_gives_the_same_examples(root, vocabulary, monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        n = 20 if split == "train" else 5
        columns = {"sentence1": sentences(n), "sentence2": ["hypothesis"] * n, "label": [k % 2 for k in range(n)]}
        return datasets.Dataset.from_dict(columns)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    hub, files = (opened("rte", root, vocabulary, source=source) for source in ("hub", "files"))
    for split in ("train", "val", "test"):
        np.testing.assert_array_equal(hub.examples(split).ids, files.examples(split).ids)
        np.testing.assert_array_equal(hub.examples(split).labels, files.examples(split).labels)
    assert set(asked) == {("nyu-mll/glue", "rte", "train"), ("nyu-mll/glue", "rte", "validation")}
    mrpc = opened("mrpc", root, vocabulary, source="hub")
    assert [len(mrpc.examples(split)) for split in ("train", "val", "test")] == [20, 5, 5]
    mrpc.prepare_data()


def test_a_hub_that_cannot_be_reached_is_one_sentence(root, vocabulary, monkeypatch):
    datasets = pytest.importorskip("datasets")

    def load_dataset(*args, **kwargs):
        raise ConnectionError("Couldn't reach\nthe Hub")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(
        UserError, match=r"nyu-mll/glue \(cola\) train: could not be loaded .*reach the Hub.*source files"
    ):
        opened("cola", root, vocabulary, source="hub")
    columns = {"text": ["a"], "label": [0]}
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: datasets.Dataset.from_dict(columns))
    with pytest.raises(UserError, match="no column 'sentence' among text, label"):
        opened("cola", root, vocabulary, source="hub")
    columns = {"sentence": ["a", "b"], "label": [0, -1]}
    with pytest.raises(UserError, match=r"\(cola\) train, line 1: label -1, expected 0 to 1"):
        opened("cola", root, vocabulary, source="hub")


def test_limited_training_is_stratified_and_part_of_the_whole(root, vocabulary):
    module = opened("sst2", root, vocabulary, limit_train=6)
    texts = module.examples("train")
    assert len(texts) == module.task.num_train == 6
    assert sorted(texts.labels.tolist()) == [0, 0, 0, 1, 1, 1]
    assert set(decoded(texts, vocabulary)) <= set(
        decoded(opened("sst2", root, vocabulary).examples("train"), vocabulary)
    )


# -- mistakes ----------------------------------------------------------------------------------------------------

BAD = {
    "a row with too few columns": (
        "sst2/train.tsv",
        "sentence\tlabel\ngood\t1\nbad\n",
        "line 3: 1 columns, expected 2",
    ),
    "a row with too many columns": ("sst2/train.tsv", "sentence\tlabel\na\tb\t1\n", "line 2: 3 columns, expected 2"),
    "a missing label column": ("sst2/train.tsv", "sentence\tscore\na\t1\n", "line 1: no column 'label' among sentence"),
    "an unknown label": ("sst2/train.tsv", "sentence\tlabel\na\t2\n", "line 2: label '2', expected 0 or 1"),
    "an empty sentence": ("sst2/train.tsv", "sentence\tlabel\na\t1\n  \t0\n", "line 3: an empty sentence"),
    "an empty line": ("sst2/train.tsv", "sentence\tlabel\na\t1\n\nb\t0\n", "line 3: 1 columns, expected 2"),
    "an empty file": ("sst2/train.tsv", "", "train.tsv: is empty"),
    "a text in another encoding": ("sst2/train.tsv", b"sentence\tlabel\ncaf\xe9\t1\n", "line 2: no UTF-8 text"),
    "a malformed row of CoLA": ("cola/raw/in_domain_train.tsv", "gj04\t1\t\tgood\ngj04\t1\tbad\n", "line 2: 3 columns"),
    "an empty half of a pair": (
        "rte/train.tsv",
        "index\tsentence1\tsentence2\tlabel\n0\ta\t\tentailment\n",
        "line 2: an",
    ),
    "an unknown label of RTE": (
        "rte/train.tsv",
        "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tyes\n",
        "expected entail",
    ),
    "a missing label column of MRPC": ("mrpc/msr_paraphrase_train.txt", "#1 String\t#2 String\na\tb\n", "no column 'Q"),
    "a broken JSON line": ("imdb_subset/train.jsonl", '{"label": 1, "text": "a"}\n{"label": 1,\n', "line 2: not valid"),
    "a JSON line without text": (
        "imdb_subset/train.jsonl",
        '{"label": 1}\n',
        "line 1: expected an object with the keys",
    ),
    "a JSON line without label": ("imdb_subset/train.jsonl", '{"text": "a"}\n', "line 1: label None, expected 0 to 1"),
    "an empty review": ("imdb/train/pos/3_1.txt", "   \n", "3_1.txt, line 1: an empty sentence"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_file_is_named_with_its_line(tmp_path, vocabulary, case):
    file, content, message = BAD[case]
    path = write_sets(tmp_path) / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as caught:
        opened(file.split("/")[0], tmp_path, vocabulary)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_files_say_what_belongs_where(tmp_path, vocabulary):
    with pytest.raises(UserError, match=r"cola: nothing at .*cola; unpack cola_public .*data.source to hub"):
        opened("cola", tmp_path, vocabulary)
    (tmp_path / "sst2").mkdir()
    with pytest.raises(UserError, match=r"train.tsv: No such file"):
        opened("sst2", tmp_path, vocabulary)
    (tmp_path / "imdb/train/neg").mkdir(parents=True)
    with pytest.raises(UserError, match=r"neg: holds no \*.txt file"):
        opened("imdb", tmp_path, vocabulary)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "data.batch_size"),
        ({"max_len": 2}, "data.max_len: expected at least 3, got 2"),
        ({"val_fraction": 1.0}, "data.val_fraction"),
        ({"limit_train": 0}, "data.limit_train"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        CoLA(**options)


def test_a_batch_larger_than_the_set_is_refused(root, vocabulary):
    module = opened("cola", root, vocabulary)
    module.batch_size = 19
    with pytest.raises(UserError, match="exceeds the 18 training examples of cola"):
        module.train_dataloader()


# -- tokens ------------------------------------------------------------------------------------------------------


def test_padding_never_stands_in_a_text(root, vocabulary):
    tokenizer = load_tokenizer(vocabulary, SIZE)
    texts, _ = tokenize([Row((f"a{END}b",), 0, "file", 1)], tokenizer, 100, refuse=False)
    assert SIZE - 1 not in texts.ids
    module = opened("cola", root, vocabulary)
    for batch in module.train_dataloader():
        lengths = (batch.inputs != module.pad_id).sum(1)
        assert lengths.max() == batch.inputs.shape[1]
        assert all((row[length:] == module.pad_id).all() for row, length in zip(batch.inputs, lengths, strict=True))


def test_the_merges_are_applied(vocabulary):
    tokenizer = load_tokenizer(vocabulary, SIZE)
    texts, _ = tokenize([Row(("the the",), 0, "file", 1)], tokenizer, 100, refuse=False)
    assert texts.ids.tolist() == [257, 258]


def test_transformers_names_of_the_files_serve_as_well(tmp_path):
    assert len(load_tokenizer(write_vocabulary(tmp_path, names=("vocab.json", "merges.txt")), SIZE)) == SIZE


def test_long_texts_are_cut_and_counted(root, vocabulary, caplog):
    with caplog.at_level(logging.INFO):
        module = opened("cola", root, vocabulary, stages=("test",), max_len=12)
    lengths = opened("cola", root, vocabulary, stages=("test",)).examples("test").lengths
    cut = int((lengths > 12).sum())
    assert 0 < cut < len(lengths)
    assert f"cola test: {cut} of {len(lengths)} texts were cut to data.max_len 12" in caplog.text
    np.testing.assert_array_equal(module.examples("test").lengths, lengths.clip(max=12))


def test_long_texts_are_refused_with_file_and_line_on_request(root, vocabulary):
    with pytest.raises(UserError, match=r"in_domain_dev.tsv, line 2: \d+ tokens, more than data.max_len 12"):
        opened("cola", root, vocabulary, stages=("test",), max_len=12, too_long="refuse")


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(10, 3, (7, 3)), (3, 10, (3, 7)), (20, 20, (5, 5)), (6, 5, (5, 5)), (4, 6, (4, 6)), (30, 1, (9, 1))],
)
def test_of_a_pair_the_longer_text_is_cut_first(vocabulary, first, second, kept):
    tokenizer = load_tokenizer(vocabulary, SIZE)
    texts, cut = tokenize([Row(("a" * first, "b" * second), 0, "file", 1)], tokenizer, 11, refuse=False)
    assert tokenizer.decode(texts.ids.tolist()) == "a" * kept[0] + "\n" + "b" * kept[1]
    assert cut == (first + second + 1 > 11)


def test_a_vocabulary_of_another_size_is_refused(vocabulary):
    with pytest.raises(UserError, match=r"encoder.json has 260 tokens, but vocab_size is 50257"):
        load_tokenizer(vocabulary, 50257)


def test_files_that_do_not_belong_together_are_named_with_the_line(tmp_path):
    write_vocabulary(tmp_path, merges=("t h", "q u"))
    with pytest.raises(UserError, match=r"vocab.bpe, line 3: .*no token 'qu'"):
        load_tokenizer(tmp_path, SIZE)
    write_vocabulary(tmp_path, merges=("t h", "the"))
    with pytest.raises(UserError, match=r"vocab.bpe, line 3: expected two tokens"):
        load_tokenizer(tmp_path, SIZE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "encoder.json, line 1: not valid JSON"),
        ('{"a": 0, "b": 2}', "must number its tokens"),
        ('{"a": 0}', "lacks the token '<|endoftext|>'"),
        ('{"<|endoftext|>": 0}', "lacks the token '!'"),
    ],
)
def test_damaged_vocabularies_are_named(tmp_path, content, message):
    write_vocabulary(tmp_path)
    (tmp_path / "encoder.json").write_text(content)
    with pytest.raises(UserError) as caught:
        load_tokenizer(tmp_path, SIZE)
    assert message in str(caught.value)


def test_absent_vocabularies_say_where_one_belongs(tmp_path, root):
    with pytest.raises(UserError, match=r"gpt2_vocab holds no encoder.json"):
        CoLA(root=str(root)).setup("fit")
    with pytest.raises(UserError, match=r"holds no encoder\.json"):
        load_tokenizer(str(tmp_path), SIZE)
    write_vocabulary(tmp_path)
    (tmp_path / "vocab.bpe").unlink()
    with pytest.raises(UserError, match=r"vocab\.bpe cannot be read"):
        load_tokenizer(tmp_path, SIZE)


def test_a_name_that_the_hub_does_not_give_is_one_sentence(monkeypatch):
    import transformers

    def from_pretrained(name, **options):
        raise OSError(f"{name} is not a local folder\nand more")

    monkeypatch.setattr(transformers.GPT2Tokenizer, "from_pretrained", from_pretrained)
    with pytest.raises(UserError, match="someone/gpt2 is no folder here and could not be loaded") as caught:
        load_tokenizer("someone/gpt2", SIZE)
    assert "\n" not in str(caught.value)


def test_without_the_extra_one_sentence_says_what_to_install(root, vocabulary, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"text needs transformers, .*pip install 'lgx\[nlp\]'"):
        opened("cola", root, vocabulary)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"text needs datasets, .*pip install 'lgx\[nlp\]'"):
        opened("cola", root, vocabulary, source="hub")


# -- batches -----------------------------------------------------------------------------------------------------


def batches(lengths, epoch=0, **options):
    sampler = LengthBatchSampler(lengths, **options)
    sampler.set_epoch(epoch)
    return [[index for _, index in batch] for batch in sampler]


def test_batches_by_length_waste_little_padding():
    lengths = np.random.default_rng(0).integers(5, 120, 1000)
    cut = batches(lengths, batch_size=10, seed=0)
    padded = sum(10 * lengths[batch].max() for batch in cut)
    assert lengths.sum() / padded > 0.9
    assert sorted(index for batch in cut for index in batch) == list(range(1000))
    assert [lengths[batch].max() for batch in cut] != sorted(lengths[batch].max() for batch in cut)


def test_batches_are_a_function_of_seed_and_epoch_on_any_number_of_processes():
    lengths = np.random.default_rng(0).integers(5, 120, 103)
    one = batches(lengths, batch_size=8, seed=3)
    assert one == batches(lengths, batch_size=8, seed=3)
    assert one != batches(lengths, batch_size=8, seed=4)
    assert one != batches(lengths, batch_size=8, seed=3, epoch=1)
    two = [batches(lengths, batch_size=4, seed=3, rank=rank, world_size=2) for rank in (0, 1)]
    assert [left + right for left, right in zip(*two, strict=True)] == one
    assert batches(lengths, batch_size=8, seed=3, limit=5) == one[:5]


def test_a_run_goes_on_within_an_epoch(root, vocabulary):
    whole = opened("sst2", root, vocabulary, seed=1).train_dataloader()
    expected = [batch.inputs for batch in whole]
    stopped = opened("sst2", root, vocabulary, seed=1).train_dataloader()
    iterator = iter(stopped)
    for _ in range(2):
        next(iterator)
    resumed = opened("sst2", root, vocabulary, seed=1).train_dataloader()
    resumed.load_state_dict(stopped.state_dict())
    rest = [batch.inputs for batch in resumed]
    assert len(rest) == len(expected) - 2 > 0
    assert all(torch.equal(a, b) for a, b in zip(rest, expected[2:], strict=True))


def test_evaluation_sees_every_text_once_and_predictions_come_in_order(root, vocabulary):
    module = opened("cola", root, vocabulary)
    seen = [row[row != module.pad_id].tolist() for batch in module.test_dataloader() for row in batch.inputs]
    texts = module.examples("test")
    assert sorted(map(tuple, seen)) == sorted(tuple(texts[i][0].tolist()) for i in range(len(texts)))
    assert [len(ids) for ids in seen] == sorted(len(ids) for ids in seen)
    in_order = [row[row != module.pad_id].tolist() for batch in module.predict_dataloader() for row in batch.inputs]
    assert in_order == [texts[i][0].tolist() for i in module.predict_indices]


def test_batches_of_several_text_sets_come_from_the_same_hooks(root, vocabulary):
    from data_modules.task_sampler import TaskBatchSampler, TaskExamples

    modules = {name: opened(name, root, vocabulary) for name in ("cola", "rte")}
    parts = {name: module.examples("train") for name, module in modules.items()}
    sampler = TaskBatchSampler({k: len(v) for k, v in parts.items()}, np.array([0.5, 0.5]), 6, 4, seed=0)
    images = TaskExamples([modules[name].transformed(part, train=True) for name, part in parts.items()])
    for keys in sampler:
        ids, labels, tasks = zip(*(images[key] for key in keys), strict=True)
        batch = list(modules.values())[tasks[0]].collate(list(zip(ids, labels, strict=True)))
        assert batch.inputs.shape[0] == 4
        assert set(tasks) == {list(modules).index(batch.task)}


def test_lines_are_split_at_line_feeds_only(tmp_path):
    path = tmp_path / "file"
    path.write_bytes("\ufeffa\u2028b\x85c\r\nd".encode())
    assert read_lines(path) == ["a\u2028b\x85c", "d"]


# -- the real sets -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not (SHARED / "gpt2_vocab").is_dir(), reason=f"no real sets at {SHARED}")
@pytest.mark.parametrize("name", ["cola", "mrpc", "rte"])
def test_the_real_sets_have_their_official_sizes(name):
    module = TEXT_SETS[name](root=str(SHARED))
    module.setup("fit")
    module.setup("test")
    sizes = tuple(len(module.examples(split)) for split in ("train", "val", "test"))
    expected = (2_127, 363, 277) if name == "rte" else module.info.sizes  # that copy of RTE has a val.tsv
    assert sizes == expected
    assert all(module.examples(split).lengths.max() <= 128 for split in ("train", "val", "test"))


@pytest.mark.skipif(not (SHARED / "gpt2_vocab").is_dir(), reason=f"no real sets at {SHARED}")
def test_the_real_vocabulary_gives_gpt2s_tokens():
    tokenizer = load_tokenizer(SHARED / "gpt2_vocab", 50257)
    assert tokenizer("Hello world", add_special_tokens=False)["input_ids"] == [15496, 995]


def test_figures_on_a_part_of_imdb_go_by_another_name():
    assert IMDBSubset.info.name != TEXT_SETS["imdb"].info.name


# -- metrics -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [9, 50, 501])
@pytest.mark.parametrize("classes", [2, 3])
def test_text_metrics_agree_with_scikit_learn(n, classes):
    torch.manual_seed(n)
    logits, targets = torch.randn(n, classes), torch.randint(0, classes, (n,))
    matthews, f1 = Matthews(classes), PositiveF1(classes)
    for part, part_targets in zip(logits.split(7), targets.split(7), strict=True):
        matthews.update(part, part_targets)
        f1.update(part, part_targets)
    predicted = logits.argmax(1)
    assert matthews.compute().item() == pytest.approx(matthews_corrcoef(targets, predicted), abs=1e-6)
    expected = f1_score(targets, predicted, labels=[1], average="macro")
    assert f1.compute().item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("predicted", [0, 1])
@pytest.mark.parametrize("targets", [[0, 1, 1, 0, 1], [0] * 5, [1] * 5])
def test_a_predictor_of_one_class_has_no_correlation_and_no_warning(predicted, targets):
    matthews, f1 = Matthews(2), PositiveF1(2)
    logits = torch.eye(2)[[predicted] * 5]
    for metric in (matthews, f1):
        metric.update(logits, torch.tensor(targets))
    assert matthews.compute().item() == 0.0
    assert f1.compute().item() == pytest.approx(f1_score(targets, [predicted] * 5, zero_division=0))
