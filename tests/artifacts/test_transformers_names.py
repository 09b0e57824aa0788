"""Weights of transformers' ViT, DeiT and DINOv2 compute the same features in timm."""

import pytest
import torch
from safetensors.torch import save_file

from lgx.artifacts.source_names import TimmSource
from lgx.artifacts.timm_models import import_timm
from lgx.artifacts.transformers_files import timm_names
from lgx.errors import UserError
from tests.support.extras import import_transformers

SIZES = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "image_size": 32, "patch_size": 16}
OLD = (
    ("layers.", "encoder.layer."), ("attention.q_proj", "attention.attention.query"),
    ("attention.k_proj", "attention.attention.key"), ("attention.v_proj", "attention.attention.value"),
    ("attention.o_proj", "attention.output.dense"), ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense"),
)  # fmt: skip
"""Names as files on the hub have them: transformers 5 renames them when it reads such files."""


def written(model, path, old=False):
    state = {}
    for key, tensor in model.state_dict().items():
        for new, former in OLD if old else ():
            key = key.replace(new, former)
        state[key] = tensor.contiguous()
    save_file(state, path)
    return str(path)


@pytest.mark.parametrize("old", [True, False])
def test_a_vit_of_transformers_has_the_same_logits(tmp_path, old):
    transformers = import_transformers()
    config = transformers.ViTConfig(intermediate_size=768, num_labels=5, layer_norm_eps=1e-6, **SIZES)
    theirs = transformers.ViTForImageClassification(config).eval()
    file = written(theirs, tmp_path / "model.safetensors", old)
    source = TimmSource("vit_tiny_patch16_224", file, img_size=32, num_classes=5)
    image = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(import_timm(source)[0](image), theirs(image).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("registers", [0, 4])
def test_a_dinov2_of_transformers_has_the_same_features(tmp_path, registers):
    transformers = import_transformers()
    kind = "Dinov2WithRegisters" if registers else "Dinov2"
    extra = {"num_register_tokens": registers} if registers else {}
    sizes = {**SIZES, "hidden_size": 384, "num_attention_heads": 6, "patch_size": 14, "image_size": 28}
    config = getattr(transformers, f"{kind}Config")(mlp_ratio=4, **sizes, **extra)
    theirs = getattr(transformers, f"{kind}Model")(config).eval()
    name = f"vit_small_patch14_{'reg4_' if registers else ''}dinov2"
    source = TimmSource(name, written(theirs, tmp_path / "model.safetensors"), img_size=28)
    image = torch.randn(2, 3, 28, 28)
    imported, _ = import_timm(source)
    with torch.no_grad():
        tokens = imported.forward_features(image)
        torch.testing.assert_close(tokens, theirs(image).last_hidden_state, rtol=1e-4, atol=1e-5)


def test_a_layer_without_keys_is_named():
    broken = {f"encoder.layer.0.attention.attention.{part}.weight": torch.zeros(2, 2) for part in ("query", "value")}
    with pytest.raises(UserError, match=r"blocks\.0\.attn\.\{q,k,v\}\.weight has only q, v"):
        timm_names(broken, "file")
