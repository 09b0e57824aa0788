"""Labeled texts of a user in tables: splits, classes, several labels, and the whole way to predictions."""

import csv
import json
from pathlib import Path

import pytest
import torch

from data_modules import TextTable
from lgx.errors import UserError
from tests.support.command_line import lgx, ok
from tests.support.extras import import_transformers
from tests.support.tokenizers_of_models import write_tokenizer

transformers = import_transformers()
ROWS = [(f"the {'cat' if k % 3 else 'dog'} sat, number {k}", str(k % 3)) for k in range(60)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def words(tmp_path) -> Path:
    folder = write_tokenizer(tmp_path / "words", "bert")
    about = json.loads((folder / "tokenizer_config.json").read_text())
    kept = {key: value for key, value in about.items() if key not in ("auto_map", "tokenizer_class")}
    (folder / "tokenizer_config.json").write_text(json.dumps(kept))
    return folder


def write_csv(path: Path, rows=ROWS, header=("text", "stars")) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def opened(root: Path, words: Path, **options) -> TextTable:
    module = TextTable(str(root), tokenizer=str(words), batch_size=4, **{"label": "stars", **options})
    module.setup("fit")
    module.setup("test")
    return module


def sizes(module: TextTable) -> list[int]:
    return [len(module.examples(split)) for split in ("train", "val", "test")]


def test_one_file_is_divided_by_class_and_splits_are_disjoint(tmp_path, words):
    module = opened(write_csv(tmp_path / "reviews.csv"), words, val_fraction=0.2)
    assert (sizes(module), module.task.class_names) == ([38, 10, 12], ("0", "1", "2"))
    fingerprints = [module.examples(split).rows._indices for split in ("train", "val", "test")]
    numbers = [number for table in fingerprints for number in table.column(0).to_pylist()]
    assert sorted(numbers) == list(range(60))
    assert (abs(torch.bincount(torch.tensor(module.examples("val").labels)) - 10 / 3) < 1).all()


def test_files_of_a_split_are_that_split_and_an_absent_one_is_held_out(tmp_path, words):
    for name in ("train-00000-of-00002.csv", "train-00001-of-00002.csv", "validation/a.csv"):
        write_csv(tmp_path / "data" / name)
    assert sizes(opened(tmp_path / "data", words)) == [108, 60, 12]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (ROWS, {"label": "nothing"}, r"reviews.csv: no column 'nothing' among text, stars"),
        (ROWS[:1], {}, "has 1 different values, expected 2 to"),
        (ROWS, {"text": "text,stars,x"}, "expected one column or two"),
        (ROWS, {"text": "text,text"}, "expected one column or two"),
        ([*ROWS, ("a text", "")], {}, f"row {len(ROWS) + 1}: has no class in column 'stars'"),
        ([], {}, "reviews.csv: has no rows"),
    ],
)
def test_a_wrong_table_is_refused_with_one_sentence(tmp_path, words, rows, options, message):
    with pytest.raises(UserError, match=message):
        opened(write_csv(tmp_path / "reviews.csv", rows), words, **options)


def test_evaluation_batches_have_similar_lengths_but_the_first_ones_are_not_the_shortest(tmp_path, words):
    rows = [("the cat " * (1 + k % 30), str(k % 2)) for k in range(400)]
    module = opened(write_csv(tmp_path / "reviews.csv", rows), words, val_fraction=0.4)
    batches = [batch.inputs[:, 1].sum(1) for batch in module.val_dataloader()]
    lengths = torch.cat(batches).float()
    assert len(lengths) == len(module.examples("val"))
    assert torch.cat(batches[:5]).float().mean() > 0.7 * lengths.mean()
    assert lengths.sum() > 0.7 * sum(len(batch) * int(batch.max()) for batch in batches)


def test_from_a_table_over_training_and_export_to_the_predictions_of_a_pipeline(tmp_path, words):
    table = write_csv(tmp_path / "reviews.csv")
    arch = 'hf:depth=1,embed_dim=16,num_heads=2,max_len=32,vocab_size=320,config={"model_type":"bert","pad_token_id":0}'
    ok(lgx("fit", "--model", "Finetune", f"--model.arch={arch}", "--model.optimizer=torch.optim.AdamW",
           "--model.optimizer.lr=1e-2", "--data", "TextTable", "--data.root", table, "--data.label", "stars",
           "--data.tokenizer", words,
           "--data.max_len=32", "--data.vocab_size=320", "--data.batch_size=8", "--trainer.max_epochs=1",
           "--experiment=e", "--name=n",
           "--runs_dir", tmp_path / "runs"))  # fmt: skip
    run = tmp_path / "runs/e/n/seed0"
    ok(lgx("export", run, "--out", tmp_path / "small"))
    for model in (run, tmp_path / "small"):
        ok(lgx("predict", table, "--model", model, "--out", tmp_path / f"{model.name}.csv"))
    assert (tmp_path / "seed0.csv").read_bytes() == (tmp_path / "small.csv").read_bytes()
    predictions = list(csv.DictReader((tmp_path / "small.csv").open()))
    pipeline = transformers.pipeline("text-classification", str(tmp_path / "small"), device="cpu")
    answers = pipeline([text for text, _ in ROWS], batch_size=7)
    assert [row["name"] for row in predictions] == [answer["label"] for answer in answers]
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text, _ in ROWS[:3]) + "\n\n" + ROWS[3][0])
    ok(lgx("predict", tmp_path / "lines.txt", "--model", tmp_path / "small", "--out", tmp_path / "lines.csv"))
    lines = [row["name"] for row in csv.DictReader((tmp_path / "lines.csv").open())]
    of_nothing = pipeline("")[0]["label"]
    assert lines == [*(answer["label"] for answer in answers[:3]), of_nothing, of_nothing, answers[3]["label"]]
    scores = torch.tensor([answer["score"] for answer in answers])
    torch.testing.assert_close(
        torch.tensor([float(row["probability"]) for row in predictions]), scores, atol=2e-6, rtol=0
    )
