"""SWS: training one layer per stage, and the stage-wise expansion of descendants."""

import torch

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.initialization import initialize
from lgx.methods import StagewiseExpansion
from tests.support.untrained_learngenes import BIG


def test_stagewise_expansion_copies_each_stage_in_order_and_names_its_strategy(sws_file):
    start = initialize(BIG.replace(depth=7), StagewiseExpansion(sws_file))
    learned = Learngene.load(sws_file).tensors
    for layer, stage in enumerate([0, 0, 0, 1, 1, 2, 2]):
        assert torch.equal(start.model.blocks[layer].attn.qkv.weight, learned[f"blocks.{stage}.attn.qkv.weight"])
    assert start.random == ()
    assert start.stored == sum(t.numel() for t in learned.values())
    assert StagewiseExpansion(sws_file).method == "sws"
    assert StagewiseExpansion(sws_file, order="front_last_mid").method == "sws_order2"
    for strategy in ("random_assigned", "random_in_order"):
        assert StagewiseExpansion(sws_file, strategy=strategy).method == f"sws_{strategy}"


def test_sws_trains_one_layer_per_stage_and_never_its_teacher(sws, ancestor):
    checkpoint = load_checkpoint(sws / "checkpoints" / "last.ckpt")
    state = checkpoint["state_dict"]
    assert torch.equal(state["network.blocks.0.attn.qkv.weight"], state["network.blocks.1.attn.qkv.weight"])
    assert not torch.equal(state["network.blocks.1.attn.qkv.weight"], state["network.blocks.2.attn.qkv.weight"])
    assert all(name.startswith("network.") for name in state)
    learngene = Learngene.load(sws / "final.learngene.safetensors")
    assert learngene.num_layers == 2
    assert learngene.architecture.stages == (2, 2)
    assert learngene.ancestor == f"{ancestor}/final.learngene.safetensors"
    groups = checkpoint["optimizer_states"][0]["param_groups"]
    assert all(group["fused"] for group in groups)
    # Two layers of 12 tensors; patches, class token, positions, norm, head.
    assert sum(len(group["params"]) for group in groups) == 2 * 12 + 8
