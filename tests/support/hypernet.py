"""A tiny ViT, and the options of a tiny hypernetwork."""

from lgx.architectures import ViTArchitecture

TINY = {"width": 16, "layers": 2, "heads": 4, "max_shape": (48, 48, 4, 4), "rank": 5, "max_size": 256}
VIT = ViTArchitecture(2, 24, 3, patch_size=4, img_size=16, num_classes=7)
