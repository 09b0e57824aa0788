"""Learngenes and checkpoints hold what they say."""

import pytest
import torch

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError
from lgx.initialization.expansion import take_layers

VIT = ViTArchitecture(2, 16, 2, patch_size=4, img_size=8, num_classes=3)
STATE = VIT.build().state_dict()
SHARED = VIT.replace(depth=4, stages=(2, 2))
SELECTION = {"layers": [0, 1], "base_share": {"a": [1.0, 1.0]}, "routing": "batch"}
MADE = {
    "network": Learngene("ancestor", VIT, STATE),
    "one layer of two": Learngene("mine", VIT, take_layers(STATE, [1])),
    "layers of stages": Learngene("sws", SHARED, STATE),
    "selected layers": Learngene("lsamd", VIT, STATE, selection=SELECTION),
    "two layers that others are computed from": Learngene("tleg", VIT, STATE, content="layers"),
    "network, as the key says": Learngene("tleg", VIT, STATE, content="network"),
}


@pytest.mark.parametrize(("kind", "learngene"), MADE.items(), ids=[*MADE])
def test_files_tell_networks_from_layers(kind, learngene, tmp_path):
    path = tmp_path / "a.learngene.safetensors"
    learngene.save(path)
    expected = "network" if kind.startswith("network") else "layers"
    assert Learngene.load(path).content == learngene.content == expected
    if expected == "network":
        assert load_pretrained(str(path)).architecture == VIT
    else:
        with pytest.raises(UserError, match=f"layers of {learngene.method}, not a whole network"):
            load_pretrained(str(path))


@pytest.mark.parametrize("plain_network", [True, False, None, "yes"])
def test_a_checkpoint_is_a_source_where_it_says_that_it_holds_a_plain_network(plain_network, tmp_path):
    about = {"method": "mine", "architecture": VIT.to_dict(), "task": {}, "epochs": 1, "plain_network": plain_network}
    path = tmp_path / "a.ckpt"
    torch.save({"lgx": about, "state_dict": {f"network.{key}": tensor for key, tensor in STATE.items()}}, path)
    if plain_network is True:
        assert load_pretrained(str(path)).architecture == VIT
    else:
        with pytest.raises(UserError, match=r"a\.ckpt: not a plain network .* give final\.learngene\.safetensors"):
            load_pretrained(str(path))
