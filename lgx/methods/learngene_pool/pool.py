"""The networks of a pool: a narrow and a wide instance, and networks that are stitched from both."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import torch
from torch import Tensor, nn

from lgx.architectures import ViTArchitecture, vit_only
from lgx.architectures.building import building_on
from lgx.architectures.counting import macs_of, parameters_of
from lgx.architectures.vit_model import embed_images
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safety import count_layers
from lgx.errors import UserError

INSTANCES = ("narrow", "wide")
"""First words of the names of tensors, ``narrow.<parameter>``; that of stitches is ``stitches.<window>.weight``."""

Pair = tuple[ViTArchitecture, ViTArchitecture]
"""The narrow and the wide instance."""


def instances_of(ancestor: ViTArchitecture, width: int, depth: int) -> Pair:
    """The instances: networks of the ancestor's kind, one narrower with heads of the same width, one of its width.

    Raises:
        UserError: If the ancestor has no instance of such a width or depth.
    """
    heads, rest = divmod(width, ancestor.head_width)
    if rest or not 0 < width < ancestor.embed_dim:
        raise UserError(f"width {width}: expected a multiple of {ancestor.head_width} below {ancestor.embed_dim}")
    if not 0 < depth <= ancestor.depth:
        raise UserError(f"depth {depth}: expected a number of layers from 1 to {ancestor.depth}")
    wide = ancestor.replace(depth=depth)
    return wide.replace(embed_dim=width, num_heads=heads), wide


def size_text(network: ViTArchitecture) -> str:
    """Depth and width, ``6x192``."""
    return f"{network.depth}x{network.embed_dim}"


def places(depth: int) -> list[tuple[int, int, int]]:
    """Where two networks of equal depth are stitched, in SN-Net's order (Pan et al., CVPR 2023).

    A window of two blocks slides over both networks. Each pair of its blocks is a place; a window has one linear map.

    Returns:
        The last block of the first network, the first block of the second one, and the number of the window.
    """
    window_of: dict[tuple[int, int], int] = {}
    for window in range(max(1, depth - 1)):
        blocks = range(window, min(window + 2, depth))
        for place in product(blocks, blocks):
            window_of.setdefault(place, window)
    return [(*place, window) for place, window in window_of.items()]


@dataclass(frozen=True)
class Member:
    """A network of a pool: an instance, or the first blocks of the narrow one, a map and the last of the wide one.

    It is counted, timed and built like an :class:`~lgx.architectures.Architecture`.

    Attributes:
        number: Its number in the pool: 0 and 1 are the instances.
        pair: The instances.
        place: Where they are stitched, see :func:`places`; None for an instance.
    """

    number: int
    pair: Pair
    place: tuple[int, int, int] | None = None
    reads_text = False

    @property
    def instance(self) -> ViTArchitecture | None:
        """The instance that it is; None for a stitched network."""
        return self.pair[self.number] if self.place is None else None

    @property
    def name(self) -> str:
        """Its name in results: depth and width, or its number and those of both parts."""
        if self.place is None:
            return size_text(self.pair[self.number])
        last, first, _ = self.place
        narrow, wide = self.pair
        parts = narrow.replace(depth=last + 1), wide.replace(depth=wide.depth - first)
        return f"stitch{self.number}_{'_'.join(map(size_text, parts))}"

    def count_parameters(self) -> int:
        """Number of parameters."""
        return parameters_of(self)

    def count_macs(self) -> int:
        """Multiply-accumulates of the forward pass of one image."""
        return macs_of(self)

    def example_input(self, device: str = "meta") -> Tensor:
        """One image, (1, C, H, W)."""
        return self.pair[0].example_input(device)

    def build(self, device: str | None = None, tensors: Mapping[str, Tensor] | None = None) -> nn.Module:
        """Build the network, images (B, C, H, W) -> logits (B, K), with the tensors of the pool or at random."""
        pool = PoolNetwork(self.pair, device)
        if tensors is not None:
            pool.load_state_dict(tensors)
        return pool.member(self)


def members(pair: Pair) -> list[Member]:
    """All networks: the instances, then the stitched networks.

    Those are 18 networks of 6 layers, or 27 of 9. The released code numbers the 18 as 0, 2 and 19 to 34, here 0 to 17.
    """
    stitched = [Member(number, pair, place) for number, place in enumerate(places(pair[0].depth), start=2)]
    return [Member(0, pair), Member(1, pair), *stitched]


class PoolNetwork(nn.Module):
    """The instances, and a linear map for each window.

    Args:
        pair: The sizes of the instances.
        device: ``meta`` builds shapes without memory.
        drop_rate: Stochastic depth of their last layers.
    """

    def __init__(self, pair: Pair, device: str | None = None, drop_rate: float = 0.0) -> None:
        super().__init__()
        self.narrow, self.wide = (instance.build(device, drop_rate) for instance in pair)
        narrow, wide = pair
        with building_on(device):
            maps = [nn.Linear(narrow.embed_dim, wide.embed_dim) for _ in range(max(1, wide.depth - 1))]
        self.stitches = nn.ModuleList(maps)

    def member(self, member: Member) -> nn.Module:
        """A network of the pool, which shares the pool's modules: timm's ViT, with blocks of both instances."""
        narrow: Any = self.narrow
        wide: Any = self.wide
        if member.place is None:
            return cast(nn.Module, wide if member.number else narrow)
        last, first, window = member.place
        blocks = nn.Sequential(*narrow.blocks[: last + 1], self.stitches[window], *wide.blocks[first:])
        network = copy(narrow)
        parts = {"blocks": blocks, "norm": wide.norm, "fc_norm": wide.fc_norm, "head": wide.head}
        vars(network)["_modules"] = {**narrow._modules, **parts}
        network.embed_dim = network.num_features = network.head_hidden_size = wide.embed_dim
        return cast(nn.Module, network)

    def forward(self, images: Tensor, member: Member) -> Tensor:
        """Logits (B, K) of a network of the pool for images (B, C, H, W)."""
        return cast(Tensor, self.member(member)(images))


def read_pool(place: str) -> tuple[Learngene, Pair]:
    """Read a learngene file of this method, and the sizes of its instances.

    Raises:
        UserError: If it holds no pool.
    """
    learngene = Learngene.load(place)
    if learngene.content != "pool":
        raise UserError(f"{place}: a learngene of {learngene.method}, which holds no pool; give one of LearngenePool")
    depth = count_layers(learngene.tensors, "narrow.blocks.")
    width = len(learngene.tensors["narrow.patch_embed.proj.weight"])
    return learngene, instances_of(vit_only(learngene.architecture, place), width, depth)


def with_stitches(state: Mapping[str, Tensor], depth: int) -> dict[str, Tensor]:
    """The instances after the first stage, and stitches at their start.

    A stitch is the mean of the narrow instance's maps of block outputs, transposed; its bias is 0.

    Args:
        state: The state of the network of the first stage.
        depth: Number of layers of an instance.
    """
    tensors = {name: tensor for name, tensor in state.items() if name.startswith(INSTANCES)}
    maps = [t for name, t in state.items() if name.startswith("maps.narrow.blocks.") and name.endswith("weight")]
    weight = torch.stack(maps).mean(dim=0).T
    for window in range(max(1, depth - 1)):
        tensors[f"stitches.{window}.weight"] = weight.clone(memory_format=torch.contiguous_format)
        tensors[f"stitches.{window}.bias"] = weight.new_zeros(len(weight))
    return tensors


@torch.no_grad()
def least_squares_stitches(network: PoolNetwork, images: Tensor) -> dict[str, Tensor]:
    """Stitches that map the tokens of the narrow instance to those of the wide one with the least squared error.

    The tokens before a stitch are mapped to the input of the block behind it. A window has one map, for all tokens of
    all its places.

    Args:
        network: The pool.
        images: Normalized images, (B, C, H, W).

    Returns:
        Weights and biases by their names in the pool.
    """
    narrow, wide = (_tokens(instance.eval(), images) for instance in (network.narrow, network.wide))
    network.train()
    listed = places(len(wide) - 1)
    stitches = {}
    for window in range(len(network.stitches)):
        of_window = [(last, first) for last, first, number in listed if number == window]
        before = torch.cat([narrow[last + 1] for last, _ in of_window]).flatten(0, -2).double()
        behind = torch.cat([wide[first] for _, first in of_window]).flatten(0, -2).double()
        with_ones = torch.cat([before, before.new_ones(len(before), 1)], dim=1)
        solution = torch.linalg.lstsq(with_ones, behind).solution.float()
        stitches[f"stitches.{window}.weight"] = solution[:-1].T.contiguous()
        stitches[f"stitches.{window}.bias"] = solution[-1]
    return stitches


def _tokens(network: Any, images: Tensor) -> list[Tensor]:
    """The input of the first block, and the output of each block, (B, N, D)."""
    tokens = [embed_images(network, images)[0]]
    for block in network.blocks:
        tokens.append(block(tokens[-1]))
    return tokens
