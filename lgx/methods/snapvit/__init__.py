"""SnapViT: a pretrained ViT's heads and neurons, scored once without labels."""

from lgx.methods.spec import GREEN, Look, MethodSpec

SPEC = MethodSpec(
    name="snapvit",
    paper="Simoncini et al., Elastic ViTs from Pretrained Models without Retraining, NeurIPS 2025",
    url="https://arxiv.org/abs/2510.17700",
    summary="The heads and neurons of a larger trained network with the largest gradients without labels are copied.",
    looks=(Look("snapvit", "SnapViT", GREEN, "--"),),
    initializer="lgx.methods.snapvit.initializer:SnapViT",
    kinds=("classification", "segmentation"),
    order=56,
)
