"""Learngenes and checkpoints hold what they say; those that lack a tensor are refused."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization.expansion import take_layers
from lgx.methods import registry
from lgx.methods.layers import LayerExpansion
from tests.support.command_line import lgx
from tests.support.descriptions import rewrite_description
from tests.support.learngenes import NETWORK, learners_of, save_source

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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"content": "head"},
            "content is 'head', expected network or layers or .* or backbones or pool or hypernetwork",
        ),
        ({"content": None}, "content is None"),
        ({"content": "hypernetwork"}, "contradicts hypernet"),
        ({"hypernet": {}}, "contradicts hypernet"),
        ({"selection": [1]}, "selection"),
    ],
)
def test_a_contradicting_description_is_refused(changes, words, tmp_path):
    path = tmp_path / "a.learngene.safetensors"
    MADE["network"].save(path)
    rewrite_description(path, **changes)
    with pytest.raises(UserError, match=words):
        Learngene.load(path)


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


def test_runs_write_both_keys(ancestor, sws):
    found = {}
    for run in (ancestor, sws):
        stored = torch.load(run / "checkpoints/best.ckpt", weights_only=True)["lgx"]
        learngene = Learngene.load(run / "final.learngene.safetensors")
        found[learngene.method] = (learngene.content, stored["plain_network"])
    assert found == {"ancestor": ("network", True), "sws": ("layers", False)}
    assert lgx("export", sws / "checkpoints/best.ckpt", "--out", "/nowhere/x").code == 2


KINDS = [kind for kind in registry.initializer_classes().values() if issubclass(kind, LayerExpansion)]
EXPANDED = {method: kind for kind in KINDS for method in learners_of(kind)}
TENSORS = ("blocks.0.norm1.bias", "blocks.1.attn.qkv.weight", "cls_token", "head.bias", "patch_embed.proj.weight")
OTHERS = {
    "nested": (*(f"whole.{name}" for name in TENSORS), "whole.norm.weight"),
    "lets": ("templates.embed", "templates.mix.0.norm1.bias", "templates.1.hidden"),
}
TASK = Task("shapes", 3, class_names=("circle", "square", "stripe"))


def rewritten(path, change):
    with safe_open(path, "pt") as file:
        save_file(change(load_file(path)), path, metadata=file.metadata())


@pytest.mark.parametrize(("method", "kind"), EXPANDED.items())
def test_a_learngene_without_one_of_its_tensors_is_refused(method, kind, tmp_path):
    path = save_source(kind, tmp_path / "a.learngene.safetensors", method)
    kind(str(path))(NETWORK, TASK)
    tensors = [name for name in TENSORS if method != "backbones" or not name.startswith("head.")]
    for lost in (*tensors, *OTHERS.get(method, ()), "blocks."):
        save_source(kind, path, method)
        rewritten(path, lambda held, lost=lost: {name: t for name, t in held.items() if not name.startswith(lost)})
        with pytest.raises(UserError, match=r"lacks|of only one|holds \d layers|names layers"):
            kind(str(path))(NETWORK, TASK)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.bool, torch.int64, torch.complex64, torch.float64])
def test_a_learngene_with_numbers_that_float32_cannot_hold_is_refused(kind, tmp_path):
    reader = EXPANDED["sws"]
    path = save_source(reader, tmp_path / "a.learngene.safetensors", "sws")
    scale = 1e300 if kind == torch.float64 else 1
    rewritten(path, lambda held: held | {"norm.bias": (held["norm.bias"].double() + 1).mul(scale).to(kind)})
    with pytest.raises(UserError, match=r"norm\.bias"):
        reader(str(path)).origin()
