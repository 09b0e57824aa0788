"""Learngene Pool: distilled small networks, and linear maps that stitch two of them."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="learngene_pool",
    paper="Shi et al., Building Variable-Sized Models via Learngene Pool, AAAI 2024",
    url="https://arxiv.org/abs/2312.05743",
    module="lgx.methods.learngene_pool.method:LearngenePool",
    initializer="lgx.methods.learngene_pool.initializer:PoolMembers",
    learngene="pool",
    kinds=("classification", "segmentation", "multilabel"),
    why_not="lgx stitches timm's ViTs alone",
    order=64,
)
