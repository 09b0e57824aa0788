"""Learngenes that lack a tensor which their method needs, or hold one that is no ordinary weight, are refused."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from lgx.core.task import Task
from lgx.errors import UserError
from lgx.methods import registry
from lgx.methods.layers import LayerExpansion
from tests.support.learngenes import NETWORK, learners_of, save_source

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
    for lost in (*TENSORS, *OTHERS.get(method, ()), "blocks."):
        save_source(kind, path, method)
        rewritten(path, lambda held, lost=lost: {name: t for name, t in held.items() if not name.startswith(lost)})
        with pytest.raises(UserError, match=r"lacks|alone|holds \d layers|names layers"):
            kind(str(path))(NETWORK, TASK)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.bool, torch.int64, torch.complex64, torch.float64])
def test_a_learngene_with_numbers_that_float32_cannot_hold_is_refused(kind, tmp_path):
    reader = EXPANDED["sws"]
    path = save_source(reader, tmp_path / "a.learngene.safetensors", "sws")
    scale = 1e300 if kind == torch.float64 else 1
    rewritten(path, lambda held: held | {"norm.bias": (held["norm.bias"].double() + 1).mul(scale).to(kind)})
    with pytest.raises(UserError, match=r"norm\.bias"):
        reader(str(path)).loaded  # noqa: B018
