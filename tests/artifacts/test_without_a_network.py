"""Names of timm's and transformers' networks where the hub does not answer: the cache is read, or one sentence."""

import time

import huggingface_hub
import pytest
import timm
import torch

from lgx.architectures import HFArchitecture
from lgx.artifacts.export import write_descendant
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.sources import resolve
from lgx.errors import UserError
from lgx.host import hub
from tests.support.fake_hub import CLOSED, silent_hub

NAME = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
GPT2 = "openai-community/gpt2"


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    """A machine without a network: the hub's address refuses connections, and the cache is empty."""
    hub.failure_of.cache_clear()
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", CLOSED)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


REMEDIES = {
    NAME: f"`lgx import {NAME} --weights FILE --out FOLDER` reads a file of weights",
    f"hf://{GPT2}": "give a local file",
}


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(("name", "silent"), [*((name, False) for name in REMEDIES), (NAME, True)])
def test_a_name_without_a_network_gives_one_sentence_within_seconds(monkeypatch, name, silent):
    monkeypatch.setattr(hub, "SECONDS", 1.0)
    with silent_hub() as address:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address if silent else CLOSED)
        began = time.monotonic()
        with pytest.raises(UserError) as error:
            load_pretrained(resolve(name).place)
        assert time.monotonic() - began < 8
    said = str(error.value)
    assert said.startswith(f"{name}: is not in the cache, and the Hugging Face hub cannot be reached (")
    assert said.endswith(f"; without a network, {REMEDIES[name]}")


def test_a_cached_gpt2_is_read_without_a_network(no_network):
    pytest.importorskip("transformers")
    architecture = HFArchitecture(1, 16, 2, max_len=16, vocab_size=32, num_classes=3)
    model = architecture.build()
    folder = no_network / "models--openai-community--gpt2"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("a" * 40)
    write_descendant(folder / "snapshots" / ("a" * 40), model, architecture)
    read = load_pretrained(resolve(f"hf://{GPT2}").place)
    assert torch.equal(read.tensors["score.weight"], model.score.weight)


def test_cached_weights_are_read_without_a_network(no_network):
    model = timm.create_model(NAME)
    folder = no_network / f"models--timm--{NAME}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("a" * 40)
    timm.models.save_for_hf(model, str(folder / "snapshots" / ("a" * 40)), safe_serialization=True)
    loaded = load_pretrained(NAME)
    assert torch.equal(loaded.tensors["pos_embed"], model.pos_embed)
    assert loaded.mean == (0.5, 0.5, 0.5)


@pytest.mark.usefixtures("no_network")
def test_offline_mode_makes_no_request(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"not in the cache.*HF_HUB_OFFLINE"):
        load_pretrained(NAME)
