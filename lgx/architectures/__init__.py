"""Descriptions of networks: families of architectures, their names, and the sets they are sampled from."""

from lgx.architectures.base import Architecture
from lgx.architectures.hf import HFArchitecture
from lgx.architectures.names import full_name, name_of
from lgx.architectures.parsing import (
    architecture_from_dict,
    parse_any_architecture,
    parse_architecture,
    parse_for,
    parse_like,
)
from lgx.architectures.sets import SETS, architecture_set
from lgx.architectures.vit import NAMES, ViTArchitecture, vit_only

__all__ = [
    "NAMES", "SETS", "Architecture", "HFArchitecture", "ViTArchitecture", "architecture_from_dict", "architecture_set",
    "full_name", "name_of", "parse_any_architecture", "parse_architecture", "parse_for", "parse_like",
    "vit_only",
]  # fmt: skip
