"""Mimetic initialization: attention that starts as it often ends, without a source."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="mimetic",
    paper="Trockman and Kolter, Mimetic Initialization of Self-Attention Layers, ICML 2023",
    url="https://arxiv.org/abs/2305.09828",
    initializer="lgx.methods.mimetic.initializer:Mimetic",
    kinds=("classification", "segmentation", "multilabel"),
    why_not="its shares of the identity and its positions are the paper's for images",
    order=15,
)
