"""TLEG: linear expansion of two layers."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="tleg",
    paper="Xia et al., Transformer as Linear Expansion of Learngene, AAAI 2024",
    url="https://arxiv.org/abs/2312.05614",
    module="lgx.methods.tleg.method:TLEG",
    initializer="lgx.methods.tleg.initializer:LinearExpansion",
    learngene="layers",
    kinds=("classification", "segmentation", "multilabel", "text", "language"),
    order=60,
)
