"""The networks behind :class:`~lgx.architectures.vit.ViTArchitecture`, made of timm's ViT."""

import math
from typing import cast

import torch.nn.functional as F
from einops import rearrange
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn


class SegmentationViT(VisionTransformer):
    """A ViT with a linear decoder: images (B, C, H, W) -> logits (B, K, H, W), under timm's parameter names.

    After the last norm the head scores the classes of every patch token, and the scores are upsampled bilinearly to
    pixels: the linear decoder of Strudel et al., "Segmenter", 2021. The class token takes part in attention only. The
    papers on learngenes do not name the decoder of their descendants; this is the smallest one, so that a comparison
    shows the descendants' differences.
    """

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits (B, K, H, W) of normalized tokens (B, 1 + N, D); ``pre_logits``: the mean patch token (B, D)."""
        patches = x[:, self.num_prefix_tokens :]
        return patches.mean(dim=1) if pre_logits else decode_linearly(self.head_drop(patches), self.head, self)


def decode_linearly(patches: Tensor, head: nn.Module, vit: VisionTransformer) -> Tensor:
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


def share_stages(model: VisionTransformer, stages: tuple[int, ...]) -> None:
    """Let the layers of each stage share the weights of the stage's first layer, in place (SWS, Eq. 1).

    The gradient of a shared layer is the sum over its uses. ``parameters()`` yields it once; ``state_dict()`` names it
    at every use.

    Args:
        model: The network; its layers are replaced.
        stages: Number of layers of each stage, front to back.
    """
    blocks, start = [], 0
    for size in stages:
        blocks += [model.blocks[start]] * size
        start += size
    model.blocks = nn.Sequential(*blocks)


def grid_of(embedding: Tensor) -> int | None:
    """Side of the square grid of a position embedding (1, 1 + grid², D); None for a tensor of another form."""
    if embedding.ndim != 3 or embedding.shape[0] != 1 or embedding.shape[1] < 2 or not embedding.shape[2]:
        return None
    side = math.isqrt(embedding.shape[1] - 1)
    return side if side**2 == embedding.shape[1] - 1 else None
