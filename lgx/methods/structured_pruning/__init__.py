"""Structured pruning of an ancestor, by the library torch-pruning."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="structured_pruning",
    paper="Fang et al., DepGraph: Towards Any Structural Pruning, CVPR 2023",
    url="https://arxiv.org/abs/2301.12900",
    initializer="lgx.methods.structured_pruning.initializer:StructuredPruning",
    kinds=("classification", "segmentation", "multilabel"),
    why_not="lgx prunes timm's ViTs alone",
    order=56,
)
