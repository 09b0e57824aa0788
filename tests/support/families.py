"""One form of each family of ViTs, in sizes that a test can afford."""

import pytest

from lgx.architectures import ViTArchitecture

FORMS = {
    "plain": "",
    "augreg_gap_registers": "vit_medium_patch16_reg4_gap_256",
    "clip": "vit_base_patch16_clip_quickgelu_224",
    "deit3": "deit3_small_patch16_224",
    "deit_distilled": "deit_tiny_distilled_patch16_224",
    "dinov2": "vit_small_patch14_dinov2",
    "dinov2_registers": "vit_small_patch14_reg4_dinov2",
    "dinov2_swiglu": "vit_giant_patch14_dinov2",
    "dinov3": "vit_small_patch16_dinov3",
    "eva": "eva_giant_patch14_224",
    "eva02": "eva02_base_patch14_224",
    "perception_encoder": "vit_pe_core_base_patch16_224",
    "siglip": "vit_base_patch16_siglip_224",
    "siglip2_gap": "vit_so400m_patch16_siglip_gap_256",
    "aimv2": "aimv2_large_patch14_224",
}
"""Form of each family; the plain ViT is also that of MAE, DINO, and augreg's models with a class token."""


def tiny(family: str, **changes: object) -> ViTArchitecture:
    """A network of a family: 2 layers, 32 wide, 2 heads, images of 16 px in patches of 8 px, 5 classes."""
    sizes: dict[str, object] = {
        "depth": 2, "embed_dim": 32, "num_heads": 2, "mlp_ratio": 2.0, "patch_size": 8, "img_size": 16,
        "num_classes": 5, "form": FORMS[family],
    }  # fmt: skip
    return ViTArchitecture.from_dict({**sizes, **changes})


_QUICK = ("plain", "deit_distilled", "dinov2_registers", "dinov3", "eva02", "siglip")

EACH = [family if family in _QUICK else pytest.param(family, marks=pytest.mark.slow) for family in FORMS]
"""Values of a test's parameter: every family, those that differ most from one another in the fast tests."""
