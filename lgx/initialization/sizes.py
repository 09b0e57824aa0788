"""The sizes of descendants that a start can fill, from which a budget chooses."""

import math
from dataclasses import dataclass, replace
from typing import Any

from lgx.architectures import Architecture, ViTArchitecture, parse_architecture, parse_for
from lgx.architectures.base import DEFAULT_FAMILY
from lgx.errors import UserError

LIKE_DEIT_SMALL = ViTArchitecture(12, 384, 6)
"""Proportions of a network without a source (Touvron et al., 2021)."""

_SIXTEENTHS = 16
"""MLP ratios are multiples of 1 / 16, so that they are short as text."""


def _group(like: Architecture) -> int:
    """Heads that share keys and values."""
    return int(getattr(like, "heads_per_group", 1))


def _step(like: Architecture) -> int:
    """Smallest step of widths: a head, or a group of heads that share keys and values."""
    return like.embed_dim // like.num_heads * _group(like)


@dataclass(frozen=True)
class Sizes:
    """Sizes that an initializer can fill from its source, each as the smallest and the largest value.

    Where both are equal, the size may not vary. Heads always have the width of ``like``'s heads, so widths are
    multiples of it.

    Attributes:
        like: Architecture of the source: gives fixed values, and the proportions of a balanced descendant.
        depth: Number of layers.
        embed_dim: Width.
        mlp_ratio: Hidden width of the MLP divided by the width.
        prefers_layers: Whether a budget prefers fewer whole layers of the source to narrower layers.
    """

    like: Architecture
    depth: tuple[int, int]
    embed_dim: tuple[int, int]
    mlp_ratio: tuple[float, float]
    prefers_layers: bool = True

    @classmethod
    def fixed(cls, like: Architecture) -> "Sizes":
        """The sizes of the source only."""
        return cls.of_any_depth(like, like.depth, like.depth)

    @classmethod
    def of_any_depth(cls, like: Architecture, least: int = 1, most: int | None = None) -> "Sizes":
        """At least ``least`` and at most ``most`` layers of the source's width."""
        depth = (least, like.limits["depth"] if most is None else most)
        return cls(like.unshared(), depth, (like.embed_dim, like.embed_dim), (like.mlp_ratio, like.mlp_ratio))

    @classmethod
    def within(cls, like: Architecture) -> "Sizes":
        """All sizes up to the source's depth, width and MLP."""
        head = _step(like)
        ratio = like.mlp_ratio
        return cls(like.unshared(), (1, like.depth), (head, like.embed_dim), (min(1.0, ratio), ratio))

    def deeper(self, least: int = 1) -> "Sizes":
        """The same widths, at any depth from ``least``."""
        return replace(self, depth=(least, self.like.limits["depth"]))

    @classmethod
    def free(cls, like: Architecture = LIKE_DEIT_SMALL, widest: int | None = None) -> "Sizes":
        """Any depth and width, with at most the MLP ratio of ``like``.

        Args:
            like: Gives the proportions of a balanced descendant.
            widest: Largest width; None for no limit.
        """
        bounded = cls.within(like)
        head = bounded.embed_dim[0]
        most = like.limits["embed_dim"] if widest is None else widest
        return cls(bounded.like, (1, like.limits["depth"]), (head, max(head, most)), bounded.mlp_ratio)

    @property
    def head(self) -> int:
        """Step of widths: that of a head, or of a group of heads that share keys and values."""
        return _step(self.like)

    def widths(self) -> range:
        """Every width, from the smallest to the largest."""
        return range(self.embed_dim[0], self.embed_dim[1] + 1, self.head)

    def ratios(self, embed_dim: int) -> list[float]:
        """Every MLP ratio of a width, from the smallest to the largest; the hidden width is even for gated MLPs."""
        least, most = self.mlp_ratio
        steps = range(math.ceil(least * _SIXTEENTHS), math.floor(most * _SIXTEENTHS) + 1)
        like = (self.like.embed_dim, self.like.mlp_ratio)
        candidates = sorted({least, most, *(step / _SIXTEENTHS for step in steps)})
        return [ratio for ratio in candidates if int(embed_dim * ratio) % 2 == 0 or (embed_dim, ratio) == like]

    def network(self, depth: int, embed_dim: int, mlp_ratio: float) -> Architecture:
        """The network of a size."""
        heads = embed_dim // self.head * _group(self.like)
        return self.like.replace(depth=depth, embed_dim=embed_dim, num_heads=heads, mlp_ratio=mlp_ratio)

    def with_fixed(self, arch: str | None, num_classes: int) -> "Sizes":
        """The same sizes with the user's values fixed.

        Args:
            arch: Fixed values, e.g. ``depth=6,img_size=64`` or ``timm:vit_small_patch14_dinov2``, or None.
            num_classes: Classes of the head.
        """
        like = self.like
        text = arch or ""
        if text.startswith("timm:"):
            name, _, text = text.partition(",")
            named = parse_architecture(name)
            like = like.replace(**{key: getattr(named, key) for key in like.shared_keys})
        if text and "=" not in text.partition(",")[0]:
            raise UserError(
                f"--arch {text}: names a whole network, so a budget has no choice; leave out the budget, or fix only "
                "some values, for example --arch depth=6,img_size=64"
            )
        like = like.replace(embed_dim=self.head, num_heads=_group(like), num_classes=num_classes)
        family = "" if like.family == DEFAULT_FAMILY else f"{like.family}:"
        text = text.removeprefix(family)
        keys = {part.partition("=")[0].strip() for part in text.split(",") if text}
        if text:
            spec = like.spec().removeprefix(family).split(",")
            others = [part for part in spec if part.partition("=")[0] not in keys]
            like = parse_for(family + ",".join([*others, text]), like.kind, num_classes)
        heads = like.embed_dim // self.head * _group(like)
        if like.embed_dim % self.head or ("num_heads" in keys and like.num_heads != heads):
            raise UserError(
                f"--arch {text}: heads of the start have width {self.head}; give a multiple as embed_dim, without "
                "num_heads"
            )
        ranges: dict[str, Any] = {
            key: (getattr(like, key),) * 2 for key in ("depth", "embed_dim", "mlp_ratio") if key in keys
        }
        for key, (value, _) in ranges.items():
            least, most = getattr(self, key)
            if not least <= value <= most:
                raise UserError(f"--arch {key}={value:g}: the start fills {least:g} to {most:g}")
        sizes = {key: getattr(self.like, key) for key in ("depth", "embed_dim", "num_heads", "mlp_ratio")}
        return replace(self, like=like.unshared().replace(**sizes), **ranges)
