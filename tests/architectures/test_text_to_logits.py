"""From raw texts to logits: as plain transformers computes them, before and after a network is written or cut."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from data_modules import TextTable
from lgx.architectures import HFArchitecture
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError
from tests.support.command_line import lgx, ok
from tests.support.extras import import_transformers
from tests.support.tokenizers_of_models import write_tokenizer

transformers: Any = import_transformers()
LENGTH, DEPTH = 12, 6
TEXTS = [
    "the cat sat",
    "a long sentence about dogs, cats and mats which is cut at the length",
    "",
    "a [SEP] dog </s> saw",
]
PAIRS = ["the mat", "dogs", "a cat saw the mat and the dog and the cat", "b"]
FEW = {
    "bert": ("text", "bert"), "modernbert": ("text", "bert"), "llama": ("language", "llama"),
    "gpt2": ("text", "bare"), "gemma3_text": ("language", "llama"), "smollm3": ("language", "bare"),
}  # fmt: skip
"""Type -> kind of its head, and its tokenizer."""
SMALL = {"depth": DEPTH, "embed_dim": 64, "num_heads": 4, "max_len": 24, "vocab_size": 320, "num_classes": 3}
WINDOWS = {"sliding_window": 4, "local_attention": 4, "rope_local_base_freq": 100.0}


def write_source(folder: Path, model_type: str, kind: str, words: str) -> Any:
    """A random network of transformers and its tokenizer."""
    from lgx.architectures.hf_config import default_values, network_class

    write_tokenizer(folder, words)
    about = json.loads((folder / "tokenizer_config.json").read_text())
    plain_about = {key: value for key, value in about.items() if key not in ("auto_map", "tokenizer_class")}
    kind_of_words = {} if model_type == "bert" else {"tokenizer_class": "TokenizersBackend"}
    (folder / "tokenizer_config.json").write_text(json.dumps(plain_about | kind_of_words))
    tokens = {"pad_token_id": 0 if words == "bert" else None, "bos_token_id": 0, "eos_token_id": 1}
    needs_padding = type(default_values(model_type).get("pad_token_id")) is int and words != "bert"
    values = {key: value for key, value in (WINDOWS | tokens).items() if key in default_values(model_type)}
    values |= {"pad_token_id": 5} if needs_padding else {}
    config = HFArchitecture(**SMALL, kind=kind, config=json.dumps({"model_type": model_type, **values})).configuration()
    torch.manual_seed(0)
    network = network_class(config, kind)(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    network.save_pretrained(folder)
    return network


def expected_logits(network: Any, folder: Path, pairs: list[str] | None, texts: list[str]) -> list[Tensor]:
    """Logits of each text by itself, without padding, with the tokenizer of a folder."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    logits = []
    for number, text in enumerate(texts):
        pair = None if pairs is None else pairs[number]
        inputs = tokenizer(text, pair, truncation=True, max_length=LENGTH, return_tensors="pt")
        with torch.no_grad():
            logits.append(network(**inputs)[0][0])
    return logits


def our_logits(folder: Path, tmp_path: Path, pairs: list[str] | None, texts: list[str]) -> list[Tensor]:
    """Logits of texts in a padded batch, through a data module and the network that lgx reads."""
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        rows = [[text, "" if pairs is None else (pairs * 3)[i], str(i % 2)] for i, text in enumerate(texts * 3)]
        csv.writer(file).writerows([["text", "pair", "label"], *rows])
    columns = "text" if pairs is None else "text,pair"
    module = TextTable(str(table), tokenizer=str(folder), text=columns, max_len=LENGTH, val_fraction=0, batch_size=2)
    module.paths["test"] = module.paths["train"]
    module.setup("test")
    module.batch_size = len(texts)
    batch, network = next(iter(module.predict_dataloader())), load_pretrained(str(folder)).model.eval()
    with torch.no_grad():
        logits = network(batch.inputs)
    lengths = batch.inputs[:, 1].sum(1).tolist()
    rows = [row if row.ndim == 1 else row[:length] for row, length in zip(logits, lengths, strict=True)]
    return rows[: len(texts)]


def surgery(network: Any, layers: str, kept: list[int]) -> Any:
    """The network with some of its layers, and the kinds of these layers in its configuration."""
    blocks = network.get_submodule(layers.rstrip("."))
    network.set_submodule(layers.rstrip("."), nn.ModuleList([blocks[i] for i in kept]))
    config = network.config
    for key, value in config.to_dict().items():
        if isinstance(value, list) and len(value) == DEPTH:
            setattr(config, key, [value[i] for i in kept])
    config.num_hidden_layers, config.use_cache = len(kept), False
    return network


def check(tmp_path: Path, model_type: str, kind: str, words: str) -> None:
    source, texts = tmp_path / "source", [text for text in TEXTS if text or words != "bare"]
    network = write_source(source, model_type, kind, words)
    architecture: Any = load_pretrained(str(source)).architecture
    auto = transformers.AutoModelForCausalLM if kind == "language" else transformers.AutoModelForSequenceClassification
    expected = {is_pair: expected_logits(network, source, PAIRS if is_pair else None, texts) for is_pair in (0, 1)}
    for is_pair in (0, 1):
        ours = our_logits(source, tmp_path, PAIRS if is_pair else None, texts)
        assert_close(ours, expected[is_pair], atol=1e-4, rtol=1e-4, msg=f"{model_type}, pair {is_pair}")
    whole = ["--method", "weight_subcloning", "--arch", f"depth={DEPTH}"]
    cut = ["--method", "layer_choice", "--choice", "0 3 5", "--arch", "depth=3"]
    for options, kept in ((whole, [*range(DEPTH)]), (cut, [0, 3, 5])):
        out = tmp_path / f"out{len(kept)}"
        ok(lgx("init", "--source", source, "--out", out, *options))
        written = auto.from_pretrained(out).eval()
        known = surgery(auto.from_pretrained(source).eval(), architecture.layers, kept)
        wanted = expected_logits(known, source, None, texts)
        assert_close(
            expected_logits(written, out, None, texts), wanted, atol=1e-4, rtol=1e-4, msg=f"{model_type} {kept}"
        )
        assert_close(our_logits(out, tmp_path, None, texts), wanted, atol=1e-4, rtol=1e-4, msg=f"{model_type} {kept}")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (out / file).read_bytes() == (source / file).read_bytes()
    if kind == "text":
        pipeline = transformers.pipeline("text-classification", str(out), device="cpu", top_k=None)
        answers = pipeline(texts, truncation=True, max_length=LENGTH)
        scores = [[found["score"] for found in sorted(row, key=lambda each: each["label"])] for row in answers]
        assert_close(torch.tensor(scores), torch.stack(wanted).softmax(1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("model_type", FEW)
def test_raw_texts_have_the_logits_of_plain_transformers(model_type, tmp_path):
    check(tmp_path, model_type, *FEW[model_type])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_raw_texts_have_the_logits_of_plain_transformers_for_every_type(tmp_path):
    from lgx.architectures.hf_config import kinds_of, text_model_types

    checked, wrong = 0, []
    for model_type in sorted({*text_model_types()} - {"yoso"}):  # whose logits depend on the padding of other texts
        for kind in kinds_of(model_type):
            try:
                HFArchitecture(**SMALL, kind=kind, config=json.dumps({"model_type": model_type}))
            except UserError:
                continue
            try:
                check(tmp_path / f"{model_type}-{kind}", model_type, kind, "bert" if kind == "text" else "llama")
                checked += 1
            except Exception as error:
                wrong.append(f"{model_type} {kind}: {type(error).__name__} {error}"[:300])
    assert not wrong, "\n".join(wrong)
    assert checked >= 60
