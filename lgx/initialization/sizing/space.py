"""The sizes among which a budget chooses: what a start can fill, less what the user fixes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.errors import UserError
from lgx.initialization.sizes import Sizes

_FREE = ("depth", "embed_dim", "num_heads", "mlp_ratio")
_STEP = 16
"""MLP ratios are multiples of 1 / 16, so that they are short as text."""


class Shape(NamedTuple):
    """A width with its MLP; the depth is open.

    Attributes:
        embed_dim: Width.
        num_heads: Attention heads.
        mlp_ratio: Hidden width of the MLP divided by the width.
    """

    embed_dim: int
    num_heads: int
    mlp_ratio: float


@dataclass(frozen=True)
class Space:
    """Sizes of descendants.

    Attributes:
        sizes: What may vary, and the proportions of a balanced descendant.
        owner: Whose sizes they are, for messages.
    """

    sizes: Sizes
    owner: str

    @classmethod
    def of(cls, sizes: Sizes, owner: str, arch: str | None = None, num_classes: int | None = None) -> "Space":
        """The sizes that a start can fill, with those that the user names fixed.

        Args:
            sizes: What the start can fill.
            owner: Whose sizes they are, for messages.
            arch: What the user fixes, e.g. ``depth=6,img_size=64`` or ``timm:vit_small_patch14_dinov2``; None for
                nothing.
            num_classes: Classes of the head; None for the source's.

        Raises:
            UserError: If ``arch`` is a name, which leaves nothing open, or a fixed size is unknown or cannot be filled.
        """
        fixed = _parsed(arch, type(sizes.like)) if arch else {}
        classes = {} if num_classes is None else {"num_classes": num_classes}
        of_input = {key: value for key, value in fixed.items() if key not in _FREE}
        space = cls(replace(sizes, like=sizes.like.replace(**of_input, **classes)), owner)
        return space.with_fixed({key: value for key, value in fixed.items() if key in _FREE})

    @property
    def like(self) -> ViTArchitecture:
        """What does not vary, and the proportions of a balanced descendant."""
        return self.sizes.like

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.like.embed_dim // self.like.num_heads

    def with_fixed(self, fixed: dict[str, Any]) -> "Space":
        """The same with some sizes fixed.

        Raises:
            UserError: If one of them cannot be filled.
        """
        fixed = dict(fixed)
        heads = fixed.pop("num_heads", None)
        if heads is not None and fixed.setdefault("embed_dim", heads * self.head) != heads * self.head:
            fixed_width = fixed["embed_dim"]
            raise UserError(
                f"--arch: num_heads={heads} for a width of {fixed_width} changes the width of a head, which is "
                f"{self.head}; leave out num_heads"
            )
        for key, value in fixed.items():
            least, most = getattr(self.sizes, key)
            if not least <= value <= most:
                span = f"only {least:g}" if least == most else f"{least:g} to {most:g}"
                raise UserError(f"--arch {key}={value:g}: {self.owner} fills {span}")
        if fixed.get("embed_dim", 0) % self.head:
            raise UserError(f"--arch embed_dim={fixed['embed_dim']}: expected a multiple of a head's width {self.head}")
        ranges: dict[str, Any] = {key: (value, value) for key, value in fixed.items()}
        return replace(self, sizes=replace(self.sizes, **ranges))

    def shapes(self, embed_dim: int) -> Iterator[Shape]:
        """Every MLP of a width, from the largest to the smallest."""
        least, most = self.sizes.mlp_ratio
        half = embed_dim // 2 if embed_dim % 2 == 0 else embed_dim
        steps = math.gcd(_STEP, half)  # the hidden width is whole, and even, because gated MLPs halve it
        ends = {ratio for ratio in (least, most) if embed_dim == self.like.embed_dim or int(embed_dim * ratio) % 2 == 0}
        between = range(math.ceil(least * steps), math.floor(most * steps) + 1)
        for ratio in sorted({*ends, *(count / steps for count in between)}, reverse=True):
            yield Shape(embed_dim, embed_dim // self.head, ratio)

    def widths(self) -> Iterator[int]:
        """Every width, from the smallest to the largest."""
        least, most = self.sizes.embed_dim
        yield from range(least, most + 1, self.head)

    @property
    def smallest(self) -> ViTArchitecture:
        """The smallest network."""
        return self.network(self.sizes.depth[0], self._shape(0))

    @property
    def largest(self) -> ViTArchitecture:
        """The largest network."""
        return self.network(self.sizes.depth[1], self._shape(1))

    def _shape(self, end: int) -> Shape:
        width = self.sizes.embed_dim[end] // self.head * self.head
        return Shape(width, width // self.head, self.sizes.mlp_ratio[end])

    def network(self, depth: int, shape: Shape) -> ViTArchitecture:
        """A descendant of this space."""
        return self.like.replace(depth=depth, **shape._asdict())

    def imbalance(self, depth: int, shape: Shape) -> float:
        """How far a network is from the proportions of ``like``.

        The logarithm of the factor between their ratios of depth to width, plus that between their MLP ratios, both
        without sign; 0 for equal proportions.
        """
        like = self.like
        slenderness = (depth / shape.embed_dim) / (like.depth / like.embed_dim)
        return abs(math.log(slenderness)) + abs(math.log(shape.mlp_ratio / like.mlp_ratio))

    @property
    def freedom(self) -> str:
        """What varies, in words."""
        sizes, words = self.sizes, []
        if sizes.depth[0] < sizes.depth[1]:
            words.append("the depth")
        if sizes.embed_dim[0] < sizes.embed_dim[1]:
            words.append(f"the width in steps of {self.head}")
        if sizes.mlp_ratio[0] < sizes.mlp_ratio[1]:
            words.append("the MLP ratio")
        return " and ".join(words) or "nothing"


def _parsed(text: str, family: type[ViTArchitecture]) -> dict[str, Any]:
    """Values of ``key=value,...``; a leading ``timm:NAME`` gives the form and the inputs of that model."""
    name, _, others = text.partition(",")
    if name.startswith("timm:"):
        like = parse_architecture(name)
        of_model = {key: getattr(like, key) for key in family.shared_keys}
        return of_model | (_parsed(others, family) if others else {})
    known = [key for key in family.__dataclass_fields__ if key not in ("kind", "num_classes", "stages")]
    fixed: dict[str, Any] = {}
    for option in text.split(","):
        key, equals, value = option.strip().partition("=")
        if not equals:
            raise UserError(
                f"--arch {text}: names a whole network, which leaves a budget nothing to choose; leave out the budget, "
                f"or fix some sizes only, for example --arch depth=6,img_size=64"
            )
        if key not in known:
            raise UserError(f"--arch {text}: unknown key {key!r}; known beside a budget are {', '.join(known)}")
        try:
            fixed |= family.parse_option(key, value)
        except ValueError:
            raise UserError(f"--arch {text}: {key} must be a number, got {value!r}") from None
    return fixed
