"""SWS: stage-wise weight sharing."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="sws",
    paper="Xia et al., Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models, "
    "IJCAI 2024",
    url="https://arxiv.org/abs/2404.16897",
    module="lgx.methods.sws.method:SWS",
    initializer="lgx.methods.sws.initializer:StagewiseExpansion",
    learngene="layers",
    kinds=("classification", "segmentation", "multilabel", "text", "language"),
    variants=("order=1",),
    order=90,
)
