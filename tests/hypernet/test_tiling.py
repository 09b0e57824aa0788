"""Parameters larger than ``max_shape`` are tiled, and reported."""

import pytest
import torch
from torch import nn

from lgx.architectures import parse_architecture
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph, trace

SMALL = {"width": 16, "layers": 1, "heads": 2, "rank": 4, "max_size": 1024}
VIT = "depth=3,embed_dim=12,num_heads=3,patch_size=4,img_size=16"


@pytest.mark.parametrize("decoder", ["conv", "low_rank"])
@pytest.mark.parametrize("convolutional", [True, False])
def test_tiled_parameters_are_the_repeated_ones(decoder, convolutional):
    torch.manual_seed(0)
    config = HypernetConfig(**SMALL, max_shape=(16, 20, 8, 8), num_classes=18, decoder=decoder)
    if convolutional:
        model = nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(16, 24, 3), nn.BatchNorm2d(24), nn.Conv2d(24, 12, 3),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 18),
        )  # fmt: skip
        graph = trace(model, (3, 16, 16))
    else:
        graph = computational_graph(parse_architecture(VIT, num_classes=18))
    hypernet = Hypernet(config)
    with torch.no_grad():
        predicted = hypernet.predict_graphs([graph])[0]

    def repeats(name: str) -> bool:
        tensor = predicted[name]
        matrix = tensor[:, None] if tensor.ndim == 1 else tensor[:, 1:].transpose(1, 2) if "pos" in name else tensor
        rows, columns = matrix[16:], matrix[:, 20:]
        return (len(rows) > 0 and torch.equal(rows, matrix[: len(rows)])) or (
            columns.numel() > 0 and torch.equal(columns, matrix[:, : columns.shape[1]])
        )

    norm_biases = {n.parameter.replace("weight", "bias") for n in graph.nodes if n.op in ("bn", "ln")}
    named = hypernet.tiled_parameters(graph)
    assert set(named) == {name for name in predicted if name not in norm_biases and repeats(name)}
    assert 0 < len(named) < len(predicted) - len(norm_biases)
