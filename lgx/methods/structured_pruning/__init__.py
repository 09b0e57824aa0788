"""Structured pruning of an ancestor, by the library torch-pruning."""

from lgx.methods.spec import RED, Look, MethodSpec

SPEC = MethodSpec(
    name="structured_pruning",
    paper="Fang et al., DepGraph: Towards Any Structural Pruning, CVPR 2023",
    url="https://arxiv.org/abs/2301.12900",
    summary="The heads, neurons and dimensions with the smallest weights are removed from a larger trained network.",
    looks=(Look("structured_pruning", "structured pruning", RED, "-."),),
    initializer="lgx.methods.structured_pruning.initializer:StructuredPruning",
    order=56,
)
