"""Parameters and multiply-accumulates as LSAMD's Table 2 counts them."""

from typing import Any

import torch
from torch import Tensor, nn

from lgx.architectures import ViTArchitecture
from lgx.architectures.cost import Cost


def cost_in_modules(architecture: ViTArchitecture) -> Cost:
    """Count like a counter of a model's layers, which reproduces every row of LSAMD's Table 2.

    Parameters are counted without position embedding and class token. MACs are those of linear layers and convolutions,
    and four operations per element of a layer norm's input; attention products and biases are not counted.
    """
    model = architecture.build("meta").eval()
    left_out = (model.pos_embed, model.cls_token)
    parameters = sum(p.numel() for p in model.parameters() if all(p is not other for other in left_out))
    macs = 0

    def add(module: nn.Module, _: Any, output: Tensor) -> None:
        """Count the MACs of a module from its output, (B, ..., D)."""
        nonlocal macs
        per_element = 4 if isinstance(module, nn.LayerNorm) else module.get_parameter("weight")[0].numel()
        macs += output.numel() * per_element

    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.LayerNorm):
            module.register_forward_hook(add)
    with torch.no_grad():
        model(architecture.example_input())
    return Cost(parameters, macs)
