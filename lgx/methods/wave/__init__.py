"""WAVE: matrices of any size from shared templates."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="wave",
    paper="Feng et al., WAVE: Weight Templates for Adaptive Initialization of Variable-sized Models, CVPR 2025",
    url="https://arxiv.org/abs/2406.17503",
    module="lgx.methods.wave.method:WAVE",
    learngene="templates",
    kinds=("classification", "segmentation", "multilabel"),
    why_not="it has templates of the four matrices in a layer of timm's ViTs",
    order=75,
)
