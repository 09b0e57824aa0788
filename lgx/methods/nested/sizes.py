"""Sizes of slices as a user lists them, and those that are listed by default."""

from collections.abc import Sequence

from lgx.architectures import Architecture, parse_for
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.methods.nested.slicing import sliced

KEYS = ("depth", "embed_dim", "num_heads", "mlp_ratio")
"""What a slice may have less of."""
WHOLE_NETWORK = "ancestor"
"""The name of the whole network's size."""


def slice_text(size: Architecture) -> str:
    """The text that :func:`parse_size` reads, with all that a slice may have less of, exactly."""
    parts = size.spec(KEYS).removeprefix(f"{size.family}:").split(",")
    return ",".join(part for part in parts if part.partition("=")[0] in KEYS)


def parse_size(text: str, whole: Architecture) -> Architecture:
    """Read a size by what differs from the whole network; heads keep their width unless their number is given.

    Args:
        text: E.g. ``depth=6,embed_dim=128``, or ``ancestor`` for the whole network.
        whole: The network.

    Raises:
        UserError: If a key or value is none of a network, or the whole network has no such slice.
    """
    if text.strip() == WHOLE_NETWORK:
        return whole
    try:
        size = parse_for(text, whole.kind, whole.num_classes, whole)
        sliced({}, whole, size, range(whole.depth))
    except UserError as error:
        raise UserError(f"size {text}: {error}") from error
    if size.replace(**{key: getattr(whole, key) for key in KEYS}) != whole:
        raise UserError(f"size {text}: slices differ in {', '.join(KEYS)} alone; leave out all other values")
    return size


def default_sizes(whole: Architecture, with_shallow: bool = False) -> list[Architecture]:
    """Half of the layers; these at two thirds of the width; a quarter of the layers so, with half of the MLP.

    Args:
        whole: The whole network.
        with_shallow: Whether a quarter of the layers at the full width comes second.
    """
    sizes = Sizes.within(whole)
    half, quarter = max(1, whole.depth // 2), max(1, whole.depth // 4)
    narrow = max(sizes.head, 2 * whole.embed_dim // 3 // sizes.head * sizes.head)
    small = min(sizes.ratios(narrow), key=lambda ratio: abs(ratio - whole.mlp_ratio / 2))
    networks = [sizes.network(half, whole.embed_dim, whole.mlp_ratio)]
    if with_shallow:
        networks.append(sizes.network(quarter, whole.embed_dim, whole.mlp_ratio))
    networks += [sizes.network(half, narrow, whole.mlp_ratio), sizes.network(quarter, narrow, small)]
    return list(dict.fromkeys(networks))


def size_names(sizes: Sequence[Architecture], whole: Architecture) -> list[str]:
    """A name of each size that differs from all others: ``6x192`` for depth and width; empty for a single one.

    MLP ratio and heads follow where they differ from the whole network's: ``3x128-mlp2``, ``3x128-h4``. The whole
    network's name is ``ancestor``.
    """
    if len(sizes) == 1:
        return [""]
    names = []
    for size in sizes:
        parts = [f"{size.depth}x{size.embed_dim}"]
        parts += [f"mlp{size.mlp_ratio:.16g}"] if size.mlp_ratio != whole.mlp_ratio else []
        parts += [f"h{size.num_heads}"] if size.num_heads * whole.embed_dim != whole.num_heads * size.embed_dim else []
        names.append(WHOLE_NETWORK if size == whole else "-".join(parts))
    return names
