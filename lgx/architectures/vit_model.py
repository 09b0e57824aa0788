"""The networks behind :class:`~lgx.architectures.vit.ViTArchitecture`, made of timm's ViT."""

from collections.abc import Mapping
from typing import Any, cast

import torch.nn.functional as F
from einops import rearrange
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from lgx.architectures.forms import ViTNetwork


class _Segmentation:
    """Replace the last part of a ViT by a linear decoder: images (B, C, H, W) -> logits (B, K, H, W).

    After the last norm the head scores the classes of every patch token, and the scores are upsampled bilinearly to
    pixels: the linear decoder of Strudel et al., "Segmenter", 2021. Prefix tokens are used in attention only. The
    papers on learngenes do not name their decoder. This is the smallest decoder, so that comparisons show differences
    of descendants. The parameters keep timm's names.
    """

    def forward_head(self: Any, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits (B, K, H, W) of normalized tokens (B, P + N, D); ``pre_logits``: the mean patch token (B, D)."""
        patches = x[:, self.num_prefix_tokens :]
        return patches.mean(dim=1) if pre_logits else decode_linearly(self.head_drop(patches), self.head, self)


class SegmentationViT(_Segmentation, VisionTransformer):
    """A plain ViT with a linear decoder: images (B, C, H, W) -> logits (B, K, H, W)."""


class _SegmentationEva(_Segmentation, Eva):
    """The same for timm's ``Eva``."""


def segmenting(model: ViTNetwork) -> None:
    """Give a network the linear decoder, in place.

    Args:
        model: A network of timm that was built without pooling.
    """
    model.__class__ = _SegmentationEva if isinstance(model, Eva) else SegmentationViT


def without_pooling(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parameters of a classifier for a network without pooling: what norms the pooled token norms every token there."""
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith("attn_pool.")}
    pooled = "fc_norm."
    return {
        f"norm.{name.removeprefix(pooled)}" if name.startswith(pooled) else name: tensor
        for name, tensor in kept.items()
    }


def embed_images(model: ViTNetwork, images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The inputs of a network's first layer.

    Args:
        model: The network.
        images: (B, C, H, W).

    Returns:
        Tokens (B, P + N, D) with P prefix tokens, and further arguments of every layer: the rotations of RoPE.
    """
    patches = model.patch_embed(images)
    if isinstance(model, Eva):
        tokens, rope = model._pos_embed(patches)
        return model.norm_pre(tokens), {} if rope is None else {"rope": rope}
    return model.norm_pre(model.patch_drop(model._pos_embed(patches))), {}


def decode_linearly(patches: Tensor, head: nn.Module, vit: ViTNetwork) -> Tensor:
    """Class scores of every pixel from patch tokens.

    Args:
        patches: Normalized patch tokens, (B, N, D).
        head: D -> K.
        vit: The network, which gives the grid and the image size.

    Returns:
        Logits, (B, K, H, W).
    """
    rows, columns = cast(tuple[int, int], vit.patch_embed.grid_size)
    scores = rearrange(head(patches), "b (r c) k -> b k r c", r=rows, c=columns)
    return F.interpolate(scores, size=vit.patch_embed.img_size, mode="bilinear", align_corners=False)
