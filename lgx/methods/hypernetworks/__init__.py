"""Hypernetworks: GHN-3, LoGAH, TAL."""

from lgx.methods.spec import MethodSpec

_INITIALIZER = "lgx.methods.hypernetworks.initializer:HypernetPrediction"
_WHY_NOT = "the predicted head is for a whole image, not for pixels"

GHN3 = MethodSpec(
    name="ghn3",
    paper="Knyazev et al., Can We Scale Transformers to Predict Parameters of Diverse ImageNet Models?, ICML 2023",
    url="https://arxiv.org/abs/2303.04143",
    module="lgx.methods.hypernetworks.base:GHN3",
    initializer=_INITIALIZER,
    learngene="hypernetwork",
    kinds=("classification", "multilabel", "text", "language"),
    why_not=_WHY_NOT,
    order=110,
)
LOGAH = MethodSpec(
    name="logah",
    paper="Zhou et al., LoGAH: Predicting 774-Million-Parameter Transformers using Graph HyperNetworks with 1/100 "
    "Parameters, 2024",
    url="https://arxiv.org/abs/2405.16287",
    module="lgx.methods.hypernetworks.base:LoGAH",
    initializer=_INITIALIZER,
    learngene="hypernetwork",
    kinds=("classification", "multilabel", "text", "language"),
    why_not=_WHY_NOT,
    aliases=("logah_aligned",),
    order=120,
)
TAL = MethodSpec(
    name="tal",
    paper="Xu et al., Learngene Tells You How to Customize: Task-Aware Parameter Initialization at Flexible Scales, "
    "ICML 2025",
    url="https://proceedings.mlr.press/v267/xu25af.html",
    module="lgx.methods.hypernetworks.tal:TAL",
    initializer=_INITIALIZER,
    learngene="hypernetwork",
    kinds=("classification", "multilabel", "text", "language"),
    why_not=_WHY_NOT,
    order=130,
)
