"""What an architecture costs, in the two ways in which the papers count."""

from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from lgx.architectures.base import Architecture
from lgx.architectures.names import name_of
from lgx.architectures.vit import ViTArchitecture
from lgx.errors import UserError

Way = Literal["whole", "modules"]


class Cost(NamedTuple):
    """What a network costs.

    Attributes:
        parameters: Number of parameters; shared ones count once.
        macs: Multiply-accumulates of one example's forward pass, the papers' "FLOPs".
    """

    parameters: int
    macs: int


@cache
def cost_of(architecture: Architecture, way: Way = "whole") -> Cost:
    """Count parameters and MACs.

    Args:
        architecture: What to count.
        way: ``whole`` counts all parameters and all products, attention's included: SWS and TAL. ``modules`` is what
            reproduces every row of LSAMD's Table 2, and what counters give that only see the layers of a model:
            parameters without position embedding and class token; MACs of linear layers and convolutions, and four
            operations for each element that a layer norm reads, but no attention products and no biases.

    Raises:
        UserError: If ``modules`` is asked of a text model: no paper counts one so.
    """
    if way == "whole":
        return Cost(architecture.count_parameters(), architecture.count_macs())
    if not isinstance(architecture, ViTArchitecture):
        raise UserError(f"architecture {name_of(architecture)}: LSAMD counts images only; leave out --count modules")
    model = architecture.build("meta").eval()
    outside = (model.pos_embed, model.cls_token)
    parameters = sum(p.numel() for p in model.parameters() if all(p is not other for other in outside))
    macs = 0

    def add(module: nn.Module, _: Any, output: Tensor) -> None:
        nonlocal macs
        each = 4 if isinstance(module, nn.LayerNorm) else module.get_parameter("weight")[0].numel()
        macs += output.numel() * each

    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.LayerNorm):
            module.register_forward_hook(add)
    with torch.no_grad():
        model(torch.empty(1, architecture.in_chans, architecture.img_size, architecture.img_size, device="meta"))
    return Cost(parameters, macs)
