"""Distillation of an ancestor into a plain network (Simple-LG)."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="simple_lg",
    paper="Xia et al., Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models "
    "(Simple-LG), IJCAI 2024; Hinton et al., Distilling the Knowledge in a Neural Network, 2015",
    url="https://arxiv.org/abs/2404.16897",
    module="lgx.methods.distillation.method:Distill",
    initializer="lgx.methods.sws.initializer:StagewiseExpansion",
    learngene="network",
    kinds=("classification", "segmentation", "text", "multilabel", "language"),
    order=80,
)
