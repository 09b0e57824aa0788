"""Nested learngenes: one network whose slices are networks of every smaller size."""

from lgx.methods.spec import RED, Look, MethodSpec

SPEC = MethodSpec(
    name="nested",
    paper="Ours, after Cai et al., Once-for-All, ICLR 2020; Kudugunta et al., MatFormer, NeurIPS 2024; Zhang et al., "
    "Scala, NeurIPS 2024; no paper of its own",
    url="https://arxiv.org/abs/2310.07707",
    summary="An ancestor is ordered by importance and trained so that its slices imitate it; a descendant is a slice.",
    looks=(Look("nested", "nested", RED),),
    module="lgx.methods.nested.method:Nested",
    initializer="lgx.methods.nested.initializer:NestedSlices",
    learngene="slices",
    order=95,
)
