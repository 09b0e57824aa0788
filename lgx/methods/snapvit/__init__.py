"""SnapViT: a pretrained ViT's heads and neurons, scored once without labels."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="snapvit",
    paper="Simoncini et al., Elastic ViTs from Pretrained Models without Retraining, NeurIPS 2025",
    url="https://arxiv.org/abs/2510.17700",
    initializer="lgx.methods.snapvit.initializer:SnapViT",
    kinds=("classification", "segmentation", "multilabel"),
    why_not="its scores compare crops of an image",
    order=56,
)
