"""LSAMD: learngene selection across data sets."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="lsamd",
    paper="Shi et al., Learngene Search Across Multiple Datasets for Building Variable-Sized Models, 2026",
    url="https://arxiv.org/abs/2605.08209",
    module="lgx.methods.lsamd.method:LSAMD",
    initializer="lgx.methods.lsamd.selection:SelectedExpansion",
    learngene="layers",
    kinds=("classification", "segmentation", "multilabel", "text"),
    why_not="it selects layers by data sets with classes",
    variants=("routing=batch", "priority=last-middle-first"),
    order=100,
)
