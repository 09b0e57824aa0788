"""Which sizes of descendants a start can fill; a search for a size within a budget chooses among them."""

from dataclasses import dataclass, replace

from lgx.architectures import ViTArchitecture

LIKE_DEIT_SMALL = ViTArchitecture(12, 384, 6)
"""Proportions of a network without a source (Touvron et al., 2021)."""


@dataclass(frozen=True)
class Sizes:
    """Sizes that an initializer can fill from its source, each as the smallest and the largest value.

    Where both are equal, the size may not vary. The width of a head is always the one of ``like``, so that widths are
    its multiples.

    Attributes:
        like: Gives all that does not vary, and the proportions of a balanced descendant: the source's architecture.
        depth: Number of layers.
        embed_dim: Width.
        mlp_ratio: Hidden width of the MLP divided by the width.
    """

    like: ViTArchitecture
    depth: tuple[int, int]
    embed_dim: tuple[int, int]
    mlp_ratio: tuple[float, float]

    @classmethod
    def own(cls, like: ViTArchitecture) -> "Sizes":
        """The source's own sizes only."""
        return cls.of_any_depth(like, like.depth, like.depth)

    @classmethod
    def of_any_depth(cls, like: ViTArchitecture, least: int = 1, most: int | None = None) -> "Sizes":
        """Layers of the source's width, at least ``least`` and at most ``most`` of them."""
        depth = (least, like.limits["depth"] if most is None else most)
        return cls(like.unshared(), depth, (like.embed_dim, like.embed_dim), (like.mlp_ratio, like.mlp_ratio))

    @classmethod
    def within(cls, like: ViTArchitecture) -> "Sizes":
        """All that is neither deeper nor wider than the source, nor has a larger MLP."""
        head, ratio = like.embed_dim // like.num_heads, like.mlp_ratio
        return cls(like.unshared(), (1, like.depth), (head, like.embed_dim), (min(1.0, ratio), ratio))

    def deeper(self, least: int = 1) -> "Sizes":
        """The same widths, at any depth from ``least``."""
        return replace(self, depth=(least, self.like.limits["depth"]))

    @classmethod
    def free(cls, like: ViTArchitecture = LIKE_DEIT_SMALL, widest: int | None = None) -> "Sizes":
        """Any depth and width, with an MLP that is in proportion not larger than that of ``like``.

        Args:
            like: Gives the proportions of a balanced descendant.
            widest: Largest width; None for no limit.
        """
        bounded = cls.within(like)
        head, most = bounded.embed_dim[0], like.limits["embed_dim"] if widest is None else widest
        return cls(bounded.like, (1, like.limits["depth"]), (head, max(head, most)), bounded.mlp_ratio)
