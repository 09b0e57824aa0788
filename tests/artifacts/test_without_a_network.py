"""Names of timm's and transformers' networks where the hub does not answer: the cache is read, or one sentence."""

import huggingface_hub
import pytest
import timm
import torch

from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.sources import resolve
from lgx.errors import UserError

NAME = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    """The hub's client in offline mode, with an empty cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", [NAME, "hf://openai-community/gpt2"])
def test_a_name_without_a_network_gives_one_sentence(name):
    with pytest.raises(UserError, match=f"^{name}: "):
        load_pretrained(resolve(name).place)


def test_cached_weights_are_read_without_a_network(no_network):
    model = timm.create_model(NAME)
    folder = no_network / f"models--timm--{NAME}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("a" * 40)
    timm.models.save_for_hf(model, str(folder / "snapshots" / ("a" * 40)), safe_serialization=True)
    loaded = load_pretrained(NAME)
    assert torch.equal(loaded.tensors["pos_embed"], model.pos_embed)
    assert loaded.mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("text", ["hf:depth=2,config=" + "x" * 300, "x\0y"])
def test_an_option_that_is_no_path_has_no_weights(text):
    assert resolve(text).weights is None
