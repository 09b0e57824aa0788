"""Encoders of every size in the space of their ancestor: their scores, exports and vectors."""

import csv
import json
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from lgx.artifacts.learngene import Learngene
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.extras import import_transformers
from tests.support.tokenizers_of_models import TEXTS, write_tokenizer

SIZES = '--model.sizes=["depth=2","depth=1,embed_dim=16,mlp_ratio=1"]'


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A BERT with a tokenizer, in the folder of sentence-transformers; the mean of the tokens is its vector."""
    transformers = import_transformers()
    folder = write_tokenizer(tmp_path_factory.mktemp("bert") / "encoder", "bert")
    words = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
    torch.manual_seed(1)
    sizes = {"num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=words + 2, max_position_embeddings=24, initializer_range=0.3, **sizes)
    transformers.BertModel(config).eval().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """Lines of texts."""
    file = tmp_path_factory.mktemp("lines") / "sentences.txt"
    words = ["cat", "dog", "mat", "saw", "about", "long"]
    lines = [" ".join(["the", *(words[k // 6**place % 6] for place in range(3))]) for k in range(200)]
    file.write_text("\n".join(lines) + "\n\n")
    return file


def of_texts(encoder, sentences, runs, *options):
    base = [w for w in arguments("fit", "Backbones", sentences, runs) if not w.startswith(("--data", "--model.arch"))]
    data = ["--data=UnlabeledTexts", f"--data.root={sentences}", f"--data.tokenizer={encoder}"]
    return lgx(*base, *data, f"--model.ancestor={encoder}", SIZES, *options)


@pytest.fixture(scope="module")
def texts(encoder, sentences, tmp_path_factory):
    """The folder of a run on texts."""
    runs = tmp_path_factory.mktemp("texts")
    ok(of_texts(encoder, sentences, runs, "--data.batch_size=16", "--trainer.max_epochs=4", "--name=t", "--data.val_fraction=0.2"))
    return runs / "test/t/seed0"


@pytest.fixture(scope="module")
def pictures(images, ancestor, tmp_path_factory):
    """The folder of a run on images."""
    runs = tmp_path_factory.mktemp("pictures")
    given = [f"--model.ancestor={ancestor}", SIZES.replace("16", "8"), "--data.labels=false", "--name=p"]
    ok(lgx(*arguments("fit", "Backbones", images, runs, *given, "--trainer.max_epochs=2")))
    return runs / "test/p/seed0"


def front_of(run):
    with (run / "front.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_run(texts, pictures):
    print(front_of(texts)[:3])
    print(Learngene.load(texts / "final.learngene.safetensors").describe())
    assert 0
