"""Weight subcloning: the most important layers, heads, neurons and dimensions of a larger network."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="weight_subcloning",
    paper="Samragh et al., Weight subcloning: direct initialization of transformers using larger pretrained ones, 2023",
    url="https://arxiv.org/abs/2312.09299",
    initializer="lgx.methods.weight_subcloning.initializer:WeightSubcloning",
    kinds=("classification", "segmentation", "text", "multilabel", "language"),
    order=54,
)
