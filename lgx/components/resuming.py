"""What a run that goes on must share with the run that it continues."""

import os
from collections.abc import Mapping
from typing import Any

from lgx.architectures import Architecture, architecture_from_dict, name_of
from lgx.errors import UserError


def seed_of() -> int:
    """The run's seed, as ``seed_everything`` left it."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0))


def check_resumable(about: Mapping[str, Any], method: str, architecture: Architecture) -> None:
    """Refuse a checkpoint of another network.

    Args:
        about: What the checkpoint says of itself.
        method: This run's method.
        architecture: This run's architecture.

    Raises:
        UserError: If one of them is another.
    """
    if about.get("method") != method:
        raise UserError(
            f"--ckpt_path: holds a network of method {about.get('method')}, this run is of {method}; "
            f"give the checkpoint of a run of {method}"
        )
    stored = architecture_from_dict(about["architecture"]) if "architecture" in about else None
    if stored != architecture:
        held = f"architecture {name_of(stored)} for {stored.kind}" if stored else "an unknown architecture"
        raise UserError(
            f"--ckpt_path: holds {held}, this run has {name_of(architecture)} for {architecture.kind}; "
            f"--ckpt_path resumes a run, use an initializer to start from other weights"
        )


def check_same_options(what: str, stored: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose network was configured otherwise.

    Args:
        what: The network, for the message.
        stored: The checkpoint's options.
        ours: This run's.

    Raises:
        UserError: If an option differs; the sentence names all that do.
    """
    differ = [f"{key} {stored.get(key)} instead of {value}" for key, value in ours.items() if stored.get(key) != value]
    if differ:
        raise UserError(f"--ckpt_path: holds {what} of another configuration: {', '.join(differ)}")
