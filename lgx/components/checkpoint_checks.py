"""Checks that a checkpoint fits the run that resumes from it."""

from collections.abc import Mapping
from typing import Any

from lgx.architectures import Architecture, architecture_from_dict, name_of
from lgx.errors import UserError


def check_resumable(about: Mapping[str, Any], method: str, architecture: Architecture) -> None:
    """Refuse a checkpoint of another method or architecture.

    Args:
        about: The checkpoint's own description, its entry ``lgx``.
        method: Name of the run's method.
        architecture: The run's architecture.

    Raises:
        UserError: If the method or the architecture differs.
    """
    if about.get("method") != method:
        raise UserError(
            f"--ckpt_path: holds a network of method {about.get('method')}, but this run is of method {method}; "
            f"give a checkpoint of a {method} run"
        )
    stored = architecture_from_dict(about["architecture"]) if "architecture" in about else None
    if stored != architecture:
        held = f"architecture {name_of(stored)} for {stored.kind}" if stored else "an unknown architecture"
        raise UserError(
            f"--ckpt_path: holds {held}, but this run has {name_of(architecture)} for {architecture.kind}; "
            f"--ckpt_path resumes a run, use an initializer to start from other weights"
        )


def check_same_options(what: str, stored: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose network has other options.

    Args:
        what: Kind of network, for the message.
        stored: Options in the checkpoint.
        ours: Options of the run.

    Raises:
        UserError: If an option differs; the message names all options that differ.
    """
    differ = [f"{key} {stored.get(key)} instead of {value}" for key, value in ours.items() if stored.get(key) != value]
    if differ:
        raise UserError(f"--ckpt_path: holds {what} with other options: {', '.join(differ)}")
