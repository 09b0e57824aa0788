"""What a descendant looks like: architectures, their names, and the sets they are sampled from."""

from lgx.architectures.names import NAMES, parse_architecture
from lgx.architectures.sets import SETS, sample_architectures
from lgx.architectures.vit import ViTArchitecture

__all__ = ["NAMES", "SETS", "ViTArchitecture", "parse_architecture", "sample_architectures"]
