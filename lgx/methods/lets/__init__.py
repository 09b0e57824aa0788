"""LeTs: a learngene with learned matrices that add neurons and layers."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="lets",
    paper="Xia et al., Initializing Variable-sized Vision Transformers from Learngene with Learnable Transformation, "
    "NeurIPS 2024",
    url="https://papers.nips.cc/paper_files/paper/2024/hash/4c5e2bcbf21bdf40d75fddad0bd43dc9-Abstract-Conference.html",
    module="lgx.methods.lets.method:LeTs",
    initializer="lgx.methods.lets.initializer:LearnedTransformation",
    learngene="templates",
    kinds=("classification", "segmentation", "multilabel"),
    why_not="its matrices widen the fused queries, keys and values of timm's ViTs",
    order=62,
)
