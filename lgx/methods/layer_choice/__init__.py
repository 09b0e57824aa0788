"""Layers of an ancestor that the user names: the control of every selection of layers."""

from lgx.methods.spec import MethodSpec

SPEC = MethodSpec(
    name="layer_choice",
    paper="Layers of the ancestor by a rule or a list: the control of a selection; no paper",
    url="https://github.com/huggingface/pytorch-image-models",
    initializer="lgx.methods.layer_choice.initializer:LayerChoice",
    kinds=("classification", "segmentation", "text", "multilabel", "language"),
    order=55,
)
