"""TLEG: linear expansion of two layers."""

from lgx.methods.spec import SKY, Look, MethodSpec

SPEC = MethodSpec(
    name="tleg",
    paper="Xia et al., Transformer as Linear Expansion of Learngene, AAAI 2024",
    url="https://arxiv.org/abs/2312.05614",
    summary="Two layers are learned from an ancestor; every layer of a descendant is a linear mix of them that "
    "depends on its place.",
    looks=(Look("tleg_from_fit", "TLEG, start: fit to layers", ""), Look("tleg", "TLEG", SKY)),
    module="lgx.methods.tleg.method:TLEG",
    initializer="lgx.methods.tleg.initializer:LinearExpansion",
    learngene="layers",
    kinds=("classification", "segmentation", "text", "language"),
    order=60,
)
