"""What a descendant looks like: architectures, their names, and the sets they are sampled from."""

from lgx.architectures.names import NAMES, parse_architecture
from lgx.architectures.sets import SETS, architecture_set, read_architectures, sample_architectures
from lgx.architectures.vit import ViTArchitecture

__all__ = [
    "NAMES",
    "SETS",
    "ViTArchitecture",
    "architecture_set",
    "parse_architecture",
    "read_architectures",
    "sample_architectures",
]
