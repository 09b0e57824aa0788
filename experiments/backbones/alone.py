"""An encoder that is trained by itself, as a comparison with backbones of every size."""

from functools import cached_property

from lgx.architectures import Architecture
from lgx.methods.nested.backbones import Backbones


class Alone(Backbones):
    """Train the listed size in every update."""

    @cached_property
    def grid(self) -> list[Architecture]:
        """No other sizes."""
        return self.listed
