"""WAVE: matrices of any size from shared templates."""

from lgx.methods.spec import PINK, Look, MethodSpec

SPEC = MethodSpec(
    name="wave",
    paper="Feng et al., WAVE: Weight Templates for Adaptive Initialization of Variable-sized Models, CVPR 2025",
    url="https://arxiv.org/abs/2406.17503",
    summary="Small weight templates are learned from an ancestor; layers of any size are sums of scaled templates.",
    looks=(
        Look("wave_from_middle", "WAVE, start: middle layers", ""),
        Look("wave_from_mean", "WAVE, start: mean of layers", ""),
        Look("wave", "WAVE", PINK, "--"),
    ),
    module="lgx.methods.wave.method:WAVE",
    learngene="templates",
    kinds=("classification", "segmentation"),
    order=75,
)
