"""Mini-DeiT: weight multiplexing."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="mini_deit",
    paper="Zhang et al., MiniViT: Compressing Vision Transformers with Weight Multiplexing, CVPR 2022",
    url="https://arxiv.org/abs/2204.07154",
    module="lgx.methods.mini_deit.method:MiniDeiT",
    initializer="lgx.methods.sws.initializer:StagewiseExpansion",
    learngene="layers",
    kinds=("classification", "segmentation", "multilabel"),
    why_not="its convolution moves the patches of an image",
    order=70,
)
