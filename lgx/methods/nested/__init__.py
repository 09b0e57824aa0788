"""Nested learngenes and families: one network whose slices are networks of every smaller size."""

from lgx.methods.spec import MethodSpec

_PAPER = (
    "Ours, after Cai et al., Once-for-All, ICLR 2020; Kudugunta et al., MatFormer, NeurIPS 2024; Zhang et al., "
    "Scala, NeurIPS 2024; no paper of its own"
)
_URL = "https://arxiv.org/abs/2310.07707"

SPEC = MethodSpec(
    name="nested",
    paper=_PAPER,
    url=_URL,
    module="lgx.methods.nested.method:Nested",
    initializer="lgx.methods.nested.initializer:NestedSlices",
    learngene="slices",
    kinds=("classification", "text", "language"),
    why_not="it learns from images without labels; its descendants start for any task of images",
    order=95,
)
BACKBONES = MethodSpec(
    name="backbones",
    paper=_PAPER,
    url=_URL,
    module="lgx.methods.nested.backbones:Backbones",
    initializer="lgx.methods.nested.initializer:BackboneMembers",
    learngene="backbones",
    kinds=("classification", "text"),
    why_not="it learns the vectors of images and texts, without labels",
    order=97,
)
FAMILY = MethodSpec(
    name="family",
    paper=_PAPER,
    url=_URL,
    module="lgx.methods.nested.family:Family",
    initializer="lgx.methods.nested.initializer:FamilyMembers",
    learngene="family",
    kinds=("classification", "segmentation", "multilabel", "text", "language"),
    order=96,
)
