"""Layers of an ancestor that the user names: the control of every selection of layers."""

from lgx.methods.spec import ORANGE, Look, MethodSpec

SPEC = MethodSpec(
    name="layer_choice",
    paper="Layers of the ancestor by a rule or a list: the control of a selection; no paper",
    url="https://github.com/huggingface/pytorch-image-models",
    summary="Layers of the ancestor that a rule or a list names are copied; the control of methods that search "
    "for layers.",
    looks=(
        Look("layer_choice", "named layers", ORANGE, "--"),
        Look("layer_choice_first", "first layers", ""),
        Look("layer_choice_last", "last layers", ""),
        Look("layer_choice_even", "evenly spaced layers", ""),
        Look("layer_choice_random", "random layers", ""),
        Look("layer_choice_influence", "layers of the highest influence", ""),
    ),
    initializer="lgx.methods.layer_choice.initializer:LayerChoice",
    kinds=("classification", "segmentation", "text", "multilabel", "language"),
    order=55,
)
