"""LSAMD's declaration."""

from lgx.methods.spec import RED, Look, MethodSpec

LSAMD = MethodSpec(
    name="lsamd",
    paper="Shi et al., Learngene Gating Across Multiple Datasets for Building Variable-Sized Models, 2026",
    url="https://arxiv.org/abs/2605.08209",
    looks=(Look("lsamd", "LSAMD", RED),),
    module="lgx.methods.lsamd.method:LSAMD",
    initializer="lgx.methods.lsamd.initializer:SelectedExpansion",
    learngene="layers",
    kinds=("classification", "segmentation"),
    variants=("routing=batch", "priority=last-middle-first"),
    order=100,
)
SPECS = (LSAMD,)
