"""The papers' names of ViTs."""

from lgx.architectures.registry import register_family
from lgx.architectures.vit import ViTArchitecture


def _named() -> dict[str, ViTArchitecture]:
    widths = {"Tiny": (192, 3), "Small": (384, 6), "Base": (768, 12)}
    letters = {"T": "Tiny", "S": "Small", "B": "Base"}
    stages_of_aux = (3, 3, 4, 3, 3)
    named = {}
    for size, (embed_dim, num_heads) in widths.items():
        for depth in range(1, 25):
            named[f"{depth}-{size}"] = ViTArchitecture(depth, embed_dim, num_heads)
    for letter, size in letters.items():
        embed_dim, num_heads = widths[size]
        for depth in range(1, 25):
            named[f"Des-{letter}-{depth}"] = ViTArchitecture(depth, embed_dim, num_heads)
        named[f"Aux-{letter}"] = ViTArchitecture(sum(stages_of_aux), embed_dim, num_heads, stages=stages_of_aux)
    return named


NAMES: dict[str, ViTArchitecture] = _named()
"""``12-Base`` (TAL), ``Des-B-12`` and ``Aux-B`` (SWS: 5 stages of 3, 3, 4, 3, 3 layers). 224 px, 1000 classes."""

register_family(ViTArchitecture, NAMES)
