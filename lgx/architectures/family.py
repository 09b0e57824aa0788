"""All architectures, whatever their family."""

from typing import Any

from lgx.architectures.gpt2 import FAMILY, GPT2Architecture
from lgx.architectures.vit import ViTArchitecture
from lgx.errors import UserError

Architecture = ViTArchitecture | GPT2Architecture


def architecture_from_dict(values: dict[str, Any]) -> Architecture:
    """Inverse of ``to_dict`` of every family; without the key ``family`` it is a ViT.

    Raises:
        UserError: If the family or a key is unknown.
    """
    family = values.get("family", "vit")
    if family == FAMILY:
        return GPT2Architecture.from_dict(values)
    if family != "vit":
        raise UserError(f"architecture: family {family!r} is unknown; known are vit and {FAMILY}")
    return ViTArchitecture.from_dict({key: value for key, value in values.items() if key != "family"})


def vit_only(architecture: Architecture, what: str) -> ViTArchitecture:
    """The architecture where it is an image model.

    Args:
        architecture: Any.
        what: What knows image models alone, for the message.

    Raises:
        UserError: If it is a text model.
    """
    if not isinstance(architecture, ViTArchitecture):
        raise UserError(f"{what}: is for image models, but {architecture.name} reads text")
    return architecture
