"""Small networks of a type of transformers, that show what it computes."""

import json
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lgx.architectures.building import building_on
from lgx.architectures.hf_config import configuration
from lgx.architectures.hf_model import text_network
from lgx.errors import UserError

HEAD, NEURONS, LENGTH, TOKENS, PAD = 8, 40, 20, 48, 1
_MOST_PARAMETERS = 2**26
TrialSizes = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]


class _Guess(NamedTuple):
    """What a trial network needs of its structure."""

    layers: str = ""
    head: str = ""
    is_causal: bool = False
    after_tokens: tuple[str, ...] = ()


class Trials:
    """Networks of a type in small sizes.

    Args:
        config: See :func:`~lgx.architectures.hf_config.structural_text`.
        kind: ``language`` or ``text``.
        heads_per_group: Query heads that share one head of keys and values.
    """

    def __init__(self, config: str, kind: str, heads_per_group: int) -> None:
        self.config = config
        self.kind = kind
        self.name = json.loads(config)["model_type"]
        heads = 4 * heads_per_group
        self.base: TrialSizes = {
            "depth": 2, "embed_dim": heads * HEAD, "num_heads": heads, "heads_per_group": heads_per_group,
            "head_dim": 0, "mlp_ratio": NEURONS / (heads * HEAD), "max_len": LENGTH, "vocab_size": TOKENS,
            "num_classes": 3, "kind": kind,
        }  # fmt: skip

    # -- networks -------------------------------------------------------------------------------------------------

    def configuration(self, sizes: TrialSizes) -> Any:
        """The configuration of a network of these sizes."""
        config = configuration(self.config, sizes)
        config.pad_token_id = PAD
        return config

    def network(self, device: str | None, prefix: str = "", **changes: Any) -> Any:
        """A network of these sizes, but for changes; not on ``meta`` with random values, always the same."""
        sizes = self.base | changes
        guess = _Guess(prefix)
        config = self.configuration(sizes)
        with building_on("meta"):
            network = text_network(config, self.kind, guess, sizes["max_len"]).eval()
        if sum(p.numel() for p in network.parameters()) > _MOST_PARAMETERS:
            raise UserError(f"architecture: networks of {self.name} have parts whose size is not the width's")
        if device == "meta":
            return network
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = text_network(self.configuration(sizes), self.kind, guess, sizes["max_len"]).eval()
            network.float()  # a run in bf16-true makes all networks in bfloat16
            with torch.no_grad():
                for parameter in network.parameters():
                    values = torch.randn_like(parameter)
                    parameter.copy_(values / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1 + values / 4)
        return network

    def shapes(self, **changes: Any) -> Shapes:
        """The shapes of its parameters by name."""
        return {name: tuple(p.shape) for name, p in self.network("meta", **changes).named_parameters()}

    def layers(self) -> str:
        """Prefix of the names of a layer's parameters, before the layer's number."""
        new = self.shapes(depth=3).keys() - self.shapes().keys()
        prefixes = {name.partition(".2.")[0] + "." for name in new if ".2." in name}
        if len(prefixes) != 1 or not all(f"{next(iter(prefixes))}2." in name for name in new):
            raise UserError(f"architecture: the layers of {self.name} share weights, or are not one list of layers")
        return prefixes.pop()


def ids_of(length: int = 9) -> Tensor:
    """Texts (2, 3, N); the second one is padded."""
    ids = torch.arange(2 * length).reshape(2, length) * 7 % (TOKENS - 2) + 2
    mask = torch.ones_like(ids)
    ids[1, length // 2 :] = PAD
    mask[1, length // 2 :] = 0
    return torch.stack([ids, mask, torch.zeros_like(ids)], dim=1)
