"""Mistakes in runs on text end with one sentence."""

import sys

import pytest

from tests.support.fake_text import write_sets, write_vocabulary
from tests.support.text_runs import HYPER, PANEL, run


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("Finetune", ["--data.max_len=50"], "in texts of up to 40, but task cola has 260, in texts of up to 50"),
        ("Finetune", ["--model.arch=gpt2:depth=1,vocab_size=300"], "model.arch: knows 300 tokens"),
        ("Finetune", ["--data.vocab_size=300"], "encoder.json has 260 tokens, but vocab_size is 300"),
        ("Finetune", ["--model.arch=6-Tiny"], "'6-Tiny': reads images, but the task has text; name a GPT-2, e.g."),
        ("SWS", [], "model SWS: is for classification and segmentation and multilabel, but the task is text"),
        ("TLEG", [], "model TLEG: is for classification and segmentation"),
        ("MiniDeiT", [], "model MiniDeiT: is for classification and segmentation"),
        ("LSAMD", ["--model.ancestor=x"], "model LSAMD: is for classification and segmentation"),
        ("Finetune", ["--model.drop_path_rate=0.1"], "model.drop_path_rate: expected 0"),
        ("Finetune", ["--model.dropout=1"], "model.dropout: expected a share in [0, 1), got 1.0"),
        ("Finetune", ["--model.mixup=0.2"], "leave both at 0 for text"),
        ("LoGAH", [], "ViTs-1K holds ViTs"),
        ("LoGAH", ["--model.set=GPTs-1K"], "model.panel: architecture '3-Tiny': reads images"),
        ("LoGAH", [*HYPER, "--model.dropout=0.1"], "neither stochastic depth nor dropout"),
    ],
)  # fmt: skip
def test_mistakes_end_with_one_sentence(text_root, tmp_path, model, options, sentence):
    if model == "LoGAH" and not options:
        options = [f"--model.panel={PANEL}"]
    done = run(text_root, tmp_path, model, *options)
    assert (done.code, sentence in done.sentence) == (2, True), done.err
    assert "Traceback" not in done.err


def test_a_malformed_file_is_named_by_the_command_line(tmp_path):
    text_root = write_sets(tmp_path / "data")
    write_vocabulary(text_root / "gpt2_vocab")
    (text_root / "cola/raw/in_domain_train.tsv").write_text("gj04\t1\t\tgood\ngj04\t1\tbad\n")
    done = run(text_root, tmp_path, "Finetune")
    assert (done.code, "train.tsv, line 2: 3 columns" in done.sentence) == (2, True), done.err


def test_a_missing_extra_ends_with_one_sentence(text_root, tmp_path, monkeypatch):
    for name in [n for n in sys.modules if n == "lgx.architectures.gpt2_model"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    done = run(text_root, tmp_path, "Finetune")
    assert (done.code, "pip install 'lgx[nlp]'" in done.sentence) == (2, True), done.err
