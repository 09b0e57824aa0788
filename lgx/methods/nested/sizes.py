"""Sizes of slices as a user lists them, and those that are listed by default."""

from lgx.architectures import ViTArchitecture
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.methods.nested.slicing import sliced

_KEYS = ("depth", "embed_dim", "num_heads", "mlp_ratio")


def parse_size(text: str, whole: ViTArchitecture) -> ViTArchitecture:
    """Read a size by what differs from the whole network; heads keep their width unless their number is given.

    Args:
        text: E.g. ``depth=6,embed_dim=128``.
        whole: The network.

    Raises:
        UserError: If a key is none of the sizes of a slice, or the size is beyond the whole network.
    """
    values: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = (piece.strip() for piece in part.partition("="))
        try:
            values |= ViTArchitecture.parse_option(key, value) if key in _KEYS else {}
        except ValueError:
            values.pop(key, None)
        if key not in values:
            raise UserError(f"model.sizes: {text}: expected KEY=NUMBER with {', '.join(_KEYS)}, got {part[:50]!r}")
    if "embed_dim" in values and "num_heads" not in values:
        values["num_heads"] = max(1, int(values["embed_dim"]) // Sizes.within(whole).head)
    try:
        size = whole.replace(**values)
        sliced({}, whole, size, range(whole.depth))
    except UserError as error:
        raise UserError(f"model.sizes: {text}: {error}") from error
    return size


def default_sizes(whole: ViTArchitecture) -> list[ViTArchitecture]:
    """Half of the layers; these at two thirds of the width; a quarter of the layers so, with half of the MLP."""
    sizes = Sizes.within(whole)
    half, quarter = max(1, whole.depth // 2), max(1, whole.depth // 4)
    narrow = max(sizes.head, 2 * whole.embed_dim // 3 // sizes.head * sizes.head)
    small = min(sizes.ratios(narrow), key=lambda ratio: abs(ratio - whole.mlp_ratio / 2))
    found = [sizes.network(half, whole.embed_dim, whole.mlp_ratio)]
    found += [sizes.network(half, narrow, whole.mlp_ratio), sizes.network(quarter, narrow, small)]
    return list(dict.fromkeys(found))
