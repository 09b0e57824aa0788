"""How image files become pixels of a task."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

ResizeMode = Literal["crop", "squash", "letterbox"]
"""How an image gets the size of the task: resized until it covers the size and cropped at the center, resized without
its proportions, or resized until it fits and surrounded with the mean color."""


class Reading(NamedTuple):
    """How image files become pixels of 8 bits.

    Attributes:
        value_range: Values of files of more than 8 bits that become 0 and 255; empty if not given.
        resize: How they get the size of the task.
    """

    value_range: tuple[float, ...] = ()
    resize: ResizeMode = "crop"

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> "Reading":
        """The value in a description of a task; by default the value that older files imply."""
        return cls(tuple(about.get("value_range") or ()), about.get("resize") or "crop")


AS_STORED = Reading()
"""How images are read unless options say otherwise."""
