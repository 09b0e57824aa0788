"""Mimetic initialization: attention that starts as it often ends, without a source."""

from lgx.methods.spec import GRAY, Look, MethodSpec

SPEC = MethodSpec(
    name="mimetic",
    paper="Trockman and Kolter, Mimetic Initialization of Self-Attention Layers, ICML 2023",
    url="https://arxiv.org/abs/2305.09828",
    summary="Weights are random, but those of attention are drawn such that their products resemble those of "
    "trained networks.",
    looks=(Look("mimetic", "mimetic start", GRAY, ":"),),
    initializer="lgx.methods.mimetic.initializer:Mimetic",
    kinds=("classification", "segmentation"),
    order=15,
)
