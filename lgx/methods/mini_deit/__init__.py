"""Mini-DeiT: weight multiplexing."""

from lgx.methods.spec import SKY, Look, MethodSpec

SPEC = MethodSpec(
    name="mini_deit",
    paper="Zhang et al., MiniViT: Compressing Vision Transformers with Weight Multiplexing, CVPR 2022",
    url="https://arxiv.org/abs/2204.07154",
    summary="Layers of a stage share weights and differ by small transformations; the shared weights are learned "
    "from an ancestor.",
    looks=(
        Look("mini_deit_from_middle", "Mini-DeiT, start: middle layers", ""),
        Look("mini_deit_from_mean", "Mini-DeiT, start: mean of layers", ""),
        Look("mini_deit", "Mini-DeiT", SKY, "--"),
    ),
    module="lgx.methods.mini_deit.method:MiniDeiT",
    initializer="lgx.methods.sws.initializer:StagewiseExpansion",
    learngene="layers",
    kinds=("classification", "segmentation"),
    order=70,
)
