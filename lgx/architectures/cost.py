"""Parameters and multiply-accumulates of an architecture, counted in the papers' two ways."""

from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from lgx.architectures.base import Architecture, name_of
from lgx.architectures.vit import ViTArchitecture
from lgx.errors import UserError

Way = Literal["whole", "modules"]


class Cost(NamedTuple):
    """Cost of a network.

    Attributes:
        parameters: Number of parameters; shared parameters count once.
        macs: Multiply-accumulates of the forward pass of one example, which the papers call FLOPs.
    """

    parameters: int
    macs: int


@cache
def cost_of(architecture: Architecture, way: Way = "whole") -> Cost:
    """Count parameters and MACs.

    Args:
        architecture: The architecture.
        way: ``whole`` counts all parameters and all products, attention products included, as SWS and TAL do.
            ``modules`` counts like a counter of a model's layers, and reproduces every row of LSAMD's Table 2:
            parameters without position embedding and class token; MACs of linear layers and convolutions, and four
            operations per element of a layer norm's input; no attention products and no biases.
    """
    if way == "whole":
        return Cost(architecture.count_parameters(), architecture.count_macs())
    if not isinstance(architecture, ViTArchitecture):
        raise UserError(
            f"architecture {name_of(architecture)}: --count modules supports image models only; leave it out"
        )
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
