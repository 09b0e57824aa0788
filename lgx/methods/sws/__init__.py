"""SWS: stage-wise weight sharing."""

from lgx.methods.spec import BLUE, Look, MethodSpec

SPEC = MethodSpec(
    name="sws",
    paper="Xia et al., Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models, "
    "IJCAI 2024",
    url="https://arxiv.org/abs/2404.16897",
    summary="A network whose layers share weights within stages imitates an ancestor; each stage is repeated as "
    "often as needed.",
    looks=(
        Look("sws_random_assigned", "SWS, random-assigned", BLUE, ":"),
        Look("sws_random_in_order", "SWS, random-assigned in stage order", BLUE, "-."),
        Look("sws_order2", "SWS, order 2", BLUE, "--"),
        Look("sws_from_middle", "SWS, start: middle layers", ""),
        Look("sws_from_mean", "SWS, start: mean of layers", ""),
        Look("sws", "SWS", BLUE),
    ),
    module="lgx.methods.sws.method:SWS",
    initializer="lgx.methods.sws.initializer:StagewiseExpansion",
    learngene="layers",
    kinds=("classification", "segmentation", "multilabel", "text", "language"),
    variants=("order=1",),
    order=90,
)
