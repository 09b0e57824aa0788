"""Weights that cannot be downloaded are reported within seconds, and those in the cache are read."""

import time

import huggingface_hub
import pytest
import timm
import torch

from lgx.artifacts import timm_hub
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError

NAME = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    """A machine without a network: the hub's address refuses connections, and the cache is empty."""
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(timm_hub, "hf_hub_url", lambda repo, file, **_: f"http://127.0.0.1:9/{repo}/{file}")
    return tmp_path / "cache"


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", [NAME, f"hf-hub:timm/{NAME}"])
def test_a_name_without_a_network_gives_one_sentence_at_once(name):
    began = time.monotonic()
    with pytest.raises(UserError) as error:
        load_pretrained(name)
    assert time.monotonic() - began < 10
    assert "the Hugging Face hub cannot be reached" in str(error.value)
    assert f"`lgx import timm:{NAME} --weights FILE --out FOLDER`" in str(error.value)


def test_cached_weights_are_read_without_a_network(no_network):
    model = timm.create_model(NAME)
    folder = no_network / f"models--timm--{NAME}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("a" * 40)
    timm.models.save_for_hf(model, str(folder / "snapshots" / ("a" * 40)), safe_serialization=True)
    for name in (NAME, f"hf-hub:timm/{NAME}"):
        loaded = load_pretrained(name)
        assert torch.equal(loaded.tensors["pos_embed"], model.pos_embed)
        assert loaded.mean == (0.5, 0.5, 0.5)


@pytest.mark.usefixtures("no_network")
def test_offline_mode_makes_no_request(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"not in the cache.*HF_HUB_OFFLINE"):
        load_pretrained(NAME)
