"""Graphs, embeddings, predictions and gradients equal those of the official GHN-3, LoGAH and TAL code.

The reference tensors are not part of the project; LGX_GOLDEN is the path of their folder.
"""

import json
from argparse import Namespace

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture
from lgx.errors import UserError
from lgx.hypernet import HypernetConfig, computational_graph, load
from lgx.hypernet.checkpoints import rename_official_weights
from lgx.hypernet.graph import GraphBatch
from lgx.methods.hypernetworks.tal import official_feature_divergence
from tests.support.command_line import DEVICES
from tests.support.paths import GOLDEN

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no reference tensors at {GOLDEN} (LGX_GOLDEN)")

VITS = {
    "A": ViTArchitecture(2, 24, 3, patch_size=4, img_size=32, num_classes=10),
    "B": ViTArchitecture(3, 48, 4, patch_size=4, img_size=64, num_classes=7),
}
PEERS = ("ghn3", "logah", "talm")
CASES = [(peer, convention, vit) for peer in PEERS for convention in ("plain", "msa") for vit in VITS]


def golden(peer: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], dict]:
    config = json.loads((GOLDEN / f"{peer}_meta.json").read_text())["config"]
    return load_file(GOLDEN / f"{peer}_golden.safetensors"), load_file(GOLDEN / f"{peer}_hypernet.safetensors"), config


def config_of(official: dict, convention: str) -> HypernetConfig:
    return HypernetConfig(
        width=official["hid"], layers=official["layers"], heads=official["heads"],
        max_shape=tuple(official["max_shape"]), num_classes=official["num_classes"],
        decoder="low_rank" if official.get("lora") else "conv", rank=official.get("lora_r", 90),
        max_size=official.get("max_ck_lora", 32_768), task_width=official.get("task_embedding_dim"),
        convention=convention,
    )  # fmt: skip


def official_names(vit: ViTArchitecture) -> dict[str, str]:
    """timm's name -> torchvision's."""
    parts = {
        "norm1": "ln_1", "norm2": "ln_2", "attn.qkv.": "self_attention.in_proj_", "mlp.fc1": "mlp.0",
        "attn.proj": "self_attention.out_proj", "mlp.fc2": "mlp.3", "patch_embed.proj": "conv_proj",
        "head.": "heads.head.", "pos_embed": "encoder.pos_embedding", "cls_token": "class_token",
    }  # fmt: skip
    names = {}
    for name in vit.build("meta").state_dict():
        official = name
        for ours, theirs in parts.items():
            official = official.replace(ours, theirs)
        if official.startswith("blocks."):
            official = "encoder.layers.encoder_layer_" + official.removeprefix("blocks.")
        names[name] = f"encoder.ln.{name.removeprefix('norm.')}" if name.startswith("norm.") else official
    return names


def tasks(peer: str, tensors: dict[str, torch.Tensor], convention: str) -> list[tuple[str, torch.Tensor | None]]:
    if peer != "talm":
        return [("", None)]
    return [(f"t{k}.", tensors["task_embeddings"][k]) for k in range(3 if convention == "msa" else 1)]


@pytest.mark.parametrize(("peer", "convention", "vit"), CASES)
def test_the_graph_equals_the_traced_one(peer, convention, vit):
    tensors, _, _ = golden(peer)
    graph = computational_graph(VITS[vit], convention)
    assert torch.equal(torch.from_numpy(graph.ops), tensors[f"{convention}.{vit}.graph.node_feat"][:, 0])
    assert torch.equal(torch.from_numpy(graph.lengths), tensors[f"{convention}.{vit}.graph.adj"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("peer", "convention", "vit"), CASES)
def test_embeddings_and_predictions_agree(peer, convention, vit, device):
    tensors, state, official = golden(peer)
    tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
    hypernet = load(state, config_of(official, convention)).to(device)
    batch = GraphBatch.from_graphs([computational_graph(VITS[vit], convention)]).to(torch.device(device))
    for tag, task in tasks(peer, tensors, convention):
        prefix = f"{convention}.{vit}.{tag}"
        with torch.no_grad():
            embedded = hypernet.encoder.shapes(batch.shapes) + hypernet.encoder.ops(batch.places[..., 0])
            torch.testing.assert_close(embedded[:, 0], tensors[f"{prefix}x_in"], rtol=0, atol=1e-5)
            torch.testing.assert_close(
                hypernet.encoder(batch, task)[:, 0], tensors[f"{prefix}x_out"], rtol=0, atol=1e-5
            )
            predicted = hypernet.predict(VITS[vit], task)
        for name, theirs in official_names(VITS[vit]).items():
            expected, found = tensors[f"{prefix}pred.{theirs}"], predicted[name]
            if name == "pos_embed":  # the official code draws the class token's row at random
                expected, found = expected[:, 1:], found[:, 1:]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("peer", PEERS)
def test_gradients_agree(peer):
    tensors, state, official = golden(peer)
    config = config_of(official, "msa")
    names = {v: k for k, v in zip(state, from_official_names(state, config), strict=True) if v}
    for tag, task in tasks(peer, tensors, "msa"):
        hypernet = load(state, config).train()
        predicted = hypernet.predict(VITS["A"], task)
        sum(0.5 * p.square().sum() for p in predicted.values()).backward()
        compared = 0
        for name, parameter in hypernet.named_parameters():
            expected = tensors.get(f"msa.A.{tag}grad.{names[name]}")
            if expected is None:
                assert parameter.grad is None or not parameter.grad.any(), name
                continue
            torch.testing.assert_close(
                parameter.grad, expected, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
            )
            compared += 1
        assert compared > 20


def from_official_names(state: dict[str, torch.Tensor], config: HypernetConfig) -> list[str | None]:
    """The name here of each official weight; None for weights that are dropped."""
    return [next(iter(rename_official_weights({key: tensor}, config)), None) for key, tensor in state.items()]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("released", [True, False])
def test_files_are_read_as_the_official_scripts_write_them(peer, released, tmp_path):
    _, state, official = golden(peer)
    more = {"hypernet": "gatedgnn", "decoder": "conv", "is_ghn2": False, "use_1d_decoder": peer == "ghn3"}
    moved = {key.replace("gnn.0.c", "c").replace("gnn.0.i", "i") if released else key: w for key, w in state.items()}
    assert (set(moved) != set(state)) is released
    saved = {"state_dict": moved, "config": {**official, **more, "max_shape": tuple(official["max_shape"])}}
    torch.save({**saved, "args": Namespace(name="x", lr_steps=[200, 250]), "epoch": 3}, tmp_path / "checkpoint.pt")
    found, expected = (load(*source) for source in ((tmp_path / "checkpoint.pt",), (state, config_of(official, "msa"))))
    assert found.config == expected.config
    assert all(torch.equal(tensor, expected.state_dict()[name]) for name, tensor in found.state_dict().items())
    torch.save({**saved, "config": {**saved["config"], "is_ghn2": True}}, tmp_path / "ghn2.pt")
    with pytest.raises(UserError, match="is_ghn2 True"):
        load(tmp_path / "ghn2.pt")


@pytest.mark.parametrize("key", ["max_shape", "num_classes", "heads", "lora_r", "weight_norm"])
def test_a_gap_in_an_official_configuration_is_named(key):
    _, state, official = golden("logah")
    with pytest.raises(UserError, match=f"the configuration lacks {key}; give"):
        load(state, {k: value for k, value in official.items() if k != key})


@pytest.mark.parametrize("models", [1, 2])
def test_the_losses_of_stage_1_agree(models):
    tensors = load_file(GOLDEN / "tal_loss_golden.safetensors")
    targets, pieces = tensors["targets"], []
    for i in range(models):
        prefix = f"m{models}.{i}."
        logits = tensors[f"{prefix}logits"]
        # log_softmax at temperature 3 equals the features / 3 up to a shift, which a softmax ignores.
        student, teacher = (3 * tensors[f"{prefix}log_softmax_{who}_T3"] for who in ("student", "teacher"))
        guidance = official_feature_divergence(student, teacher, logits.shape[1])
        expected = tensors[f"{prefix}kl_sum"] * 9 / logits.numel()
        torch.testing.assert_close(guidance, expected[0], rtol=1e-4, atol=1e-6)
        labels = F.cross_entropy(logits, targets, label_smoothing=0.1)
        torch.testing.assert_close(labels, tensors[f"{prefix}ce"][0], rtol=0, atol=1e-5)
        pieces.append(0.2 * guidance + 0.8 * labels)
    # The official code uses the last model only; this project averages over all models.
    total = (pieces[-1] + tensors[f"m{models}.loss_predwd"][0]) / models
    torch.testing.assert_close(total, tensors[f"m{models}.total_loss"][0], rtol=0, atol=1e-5)
