"""What a descendant looks like: architectures, their names, and the sets they are sampled from."""

from lgx.architectures.family import Architecture, architecture_from_dict, vit_only
from lgx.architectures.gpt2 import GPT2Architecture
from lgx.architectures.names import (
    GPT2_NAMES,
    NAMES,
    name_of,
    parse_any_architecture,
    parse_architecture,
    parse_for,
    parse_like,
)
from lgx.architectures.sets import SETS, architecture_set, read_architectures, sample_architectures
from lgx.architectures.vit import ViTArchitecture

__all__ = [
    "GPT2_NAMES",
    "NAMES",
    "SETS",
    "Architecture",
    "GPT2Architecture",
    "ViTArchitecture",
    "architecture_from_dict",
    "architecture_set",
    "name_of",
    "parse_any_architecture",
    "parse_architecture",
    "parse_for",
    "parse_like",
    "read_architectures",
    "sample_architectures",
    "vit_only",
]
