"""Hypernetworks: GHN-3, LoGAH, TAL."""

from lgx.methods.spec import GREEN, ORANGE, PINK, RED, SKY, Look, MethodSpec

_INITIALIZER = "lgx.methods.hypernetworks.initializer:HypernetPrediction"

GHN3 = MethodSpec(
    name="ghn3",
    paper="Knyazev et al., Can We Scale Transformers to Predict Parameters of Diverse ImageNet Models?, ICML 2023",
    url="https://arxiv.org/abs/2303.04143",
    summary="A graph hypernetwork reads the structure of a network and predicts all of its weights.",
    looks=(Look("ghn3", "GHN-3", ORANGE, "--"), Look("ghn3_task", "GHN-3 with task information", ORANGE, ":")),
    module="lgx.methods.hypernetworks.base:GHN3",
    initializer=_INITIALIZER,
    learngene="hypernetwork",
    kinds=("classification", "text"),
    order=110,
)
LOGAH = MethodSpec(
    name="logah",
    paper="Zhou et al., LoGAH: Predicting 774-Million-Parameter Transformers using Graph HyperNetworks with 1/100 "
    "Parameters, 2024",
    url="https://arxiv.org/abs/2405.16287",
    summary="A graph hypernetwork predicts each weight matrix as the product of two narrow ones, so that it can "
    "predict large networks.",
    looks=(Look("logah", "LoGAH", SKY, "-."),),
    module="lgx.methods.hypernetworks.base:LoGAH",
    initializer=_INITIALIZER,
    learngene="hypernetwork",
    kinds=("classification", "text"),
    aliases=("logah_aligned",),
    order=120,
)
TAL = MethodSpec(
    name="tal",
    paper="Xu et al., Learngene Tells You How to Customize: Task-Aware Parameter Initialization at Flexible Scales, "
    "ICML 2025",
    url="https://proceedings.mlr.press/v267/xu25af.html",
    summary="A hypernetwork predicts the weights of a network from its structure and from features of the task, "
    "as an ancestor sees it.",
    looks=(
        Look("tal_st", "TAL, single task", PINK, ":"),
        Look("tal_no_task", "TAL without task information", GREEN, ":"),
        Look("tal_no_ancestor", "TAL without ancestor", GREEN, "--"),
        Look("tal", "TAL", PINK, "--"),
        Look("tal_plus", "TAL+", RED, "--"),
    ),
    module="lgx.methods.hypernetworks.tal:TAL",
    initializer=_INITIALIZER,
    learngene="hypernetwork",
    kinds=("classification", "text"),
    order=130,
)
