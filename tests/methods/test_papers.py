"""Every method names its paper as the paper names itself."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from lgx.hypernet import Hypernet
from lgx.methods import GHN3, registry
from tests.support.command_line import ARCH

PAPERS: Mapping[str, tuple[str, str, str, str]] = {
    "structured_pruning": (
        "Fang et al.", "DepGraph: Towards Any Structural Pruning", "2023", "https://arxiv.org/abs/2301.12900",
    ),
    "mini_deit": (
        "Zhang et al.", "MiniViT: Compressing Vision Transformers with Weight Multiplexing", "2022",
        "https://arxiv.org/abs/2204.07154",
    ),
    "lsamd": (
        "Shi et al.", "Learngene Search Across Multiple Datasets for Building Variable-Sized Models", "2026",
        "https://arxiv.org/abs/2605.08209",
    ),
    "vanilla_lg": (
        "Wang et al.", "Learngene: From Open-World to Your Learning Task", "2022", "https://arxiv.org/abs/2106.06788",
    ),
    "weight_selection": (
        "Xu et al.", "Initializing Models with Larger Ones", "2024", "https://arxiv.org/abs/2311.18823",
    ),
    "wave": (
        "Feng et al.", "WAVE: Weight Templates for Adaptive Initialization of Variable-sized Models", "2025",
        "https://arxiv.org/abs/2406.17503",
    ),
    "weight_subcloning": (
        "Samragh et al.",
        "Weight subcloning: direct initialization of transformers using larger pretrained ones", "2023",
        "https://arxiv.org/abs/2312.09299",
    ),
    "tleg": (
        "Xia et al.", "Transformer as Linear Expansion of Learngene", "2024", "https://arxiv.org/abs/2312.05614",
    ),
    "sws": (
        "Xia et al.",
        "Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models", "2024",
        "https://arxiv.org/abs/2404.16897",
    ),
    "simple_lg": (
        "Xia et al.",
        "Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models", "2024",
        "https://arxiv.org/abs/2404.16897",
    ),
    "ghn3": (
        "Knyazev et al.", "Can We Scale Transformers to Predict Parameters of Diverse ImageNet Models?", "2023",
        "https://arxiv.org/abs/2303.04143",
    ),
    "logah": (
        "Zhou et al.",
        "LoGAH: Predicting 774-Million-Parameter Transformers using Graph HyperNetworks with 1/100 Parameters", "2024",
        "https://arxiv.org/abs/2405.16287",
    ),
    "tal": (
        "Xu et al.",
        "Learngene Tells You How to Customize: Task-Aware Parameter Initialization at Flexible Scales", "2025",
        "https://proceedings.mlr.press/v267/xu25af.html",
    ),
    "lets": (
        "Xia et al.",
        "Initializing Variable-sized Vision Transformers from Learngene with Learnable Transformation", "2024",
        "https://papers.nips.cc/paper_files/paper/2024/hash/4c5e2bcbf21bdf40d75fddad0bd43dc9-Abstract-Conference.html",
    ),
    "snapvit": (
        "Simoncini et al.", "Elastic ViTs from Pretrained Models without Retraining", "2025",
        "https://arxiv.org/abs/2510.17700",
    ),
    "mimetic": (
        "Trockman and Kolter", "Mimetic Initialization of Self-Attention Layers", "2023",
        "https://arxiv.org/abs/2305.09828",
    ),
}  # fmt: skip
"""First author, title, year and URL of each method's paper."""


def test_every_method_names_its_paper_as_the_paper_does():
    specs = {name: spec for name, spec in registry.specs().items() if "no paper" not in spec.paper}
    assert specs.keys() == PAPERS.keys()
    for name, spec in specs.items():
        author, title, year, url = PAPERS[name]
        assert [part for part in (author, title, year) if part not in spec.paper] == [], name
        assert spec.url == url
        for kind in (registry.method_class(spec), registry.initializer_class(spec)):
            docstring = " ".join((getattr(kind, "__doc__", None) or "").split())
            assert title in docstring or url not in docstring, kind


@pytest.mark.parametrize(
    ("width", "layers", "heads", "parameters"),
    [(64, 3, 8, 6_906_632), (128, 5, 16, 35_810_368), (256, 12, 16, 214_668_960)],
    ids=["GHN-3-T", "GHN-3-S", "GHN-3-L"],
)
def test_ghn3_has_as_many_parameters_as_the_released_ones(width: int, layers: int, heads: int, parameters: int):
    """The numbers are those of the released code, executed; see https://github.com/SamsungSAILMontreal/ghn3."""
    method: Any = GHN3(arch=ARCH, optimizer=torch.optim.AdamW, width=width, layers=layers, heads=heads)
    with torch.device("meta"):
        network = Hypernet(method.configured())
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters
