"""FRONT: the low frequencies of a trained network's weights, for networks of any size."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="front",
    paper="Shen et al., Breaking the Scale Barrier: One-Shot Knowledge Transfer via Frequency Transform, ICML 2026",
    url="https://arxiv.org/abs/2603.07523",
    initializer="lgx.methods.front.initializer:FRONT",
    kinds=("classification", "segmentation", "multilabel"),
    why_not="lgx resizes timm's ViTs alone",
    order=52,
)
