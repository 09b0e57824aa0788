"""The size of images: the side of a square, or height and width."""

from lgx.core.schema import Field, at_most, list_of

ImageSize = int | tuple[int, int]
"""Side of square images, or height and width, in pixels."""

_SIDE = at_most(65_536, 1)
_PAIR = list_of(_SIDE)
IMAGE_SIZE = Field(
    lambda value: _SIDE.holds(value) or (isinstance(value, list | tuple) and len(value) == 2 and _PAIR.holds([*value])),
    f"{_SIDE.words}, or height and width",
)


def height_width(size: ImageSize) -> tuple[int, int]:
    """Height and width."""
    return size if isinstance(size, tuple) else (size, size)


def image_size(height: int, width: int) -> ImageSize:
    """The size of images of this height and width: one number if both are equal."""
    return height if height == width else (height, width)


def size_text(size: ImageSize) -> str:
    """``64`` or ``96x160``."""
    return "x".join(map(str, size)) if isinstance(size, tuple) else str(size)


def parse_image_size(text: str) -> ImageSize:
    """Inverse of :func:`size_text`; an invalid text raises a ``ValueError``."""
    height, times, width = text.partition("x")
    return image_size(int(height), int(width if times else height))
