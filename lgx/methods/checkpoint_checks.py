"""Checks of a checkpoint before its weights are loaded."""

from collections.abc import Mapping
from typing import Any

from lgx.architectures import Architecture, architecture_from_dict, name_of
from lgx.architectures.class_order import class_order, with_class_order
from lgx.core.task import Normalization, Reading, Task
from lgx.errors import UserError


def check_resumable(about: Mapping[str, Any], method: str, architecture: Architecture) -> None:
    """Refuse a checkpoint of another method or architecture.

    Args:
        about: The checkpoint's description, its entry ``lgx``.
        method: Name of the run's method.
        architecture: The run's architecture.
    """
    if about.get("method") != method:
        raise UserError(
            f"--ckpt_path: contains a network of method {about.get('method')}, but this run is of method {method}; "
            f"give a checkpoint of a {method} run"
        )
    stored = architecture_from_dict(about["architecture"]) if "architecture" in about else None
    if stored != architecture:
        held = f"architecture {name_of(stored)} for {stored.kind}" if stored else "an unknown architecture"
        raise UserError(
            f"--ckpt_path: contains {held}, but this run has {name_of(architecture)} for {architecture.kind}; "
            "--ckpt_path only resumes a run, use an initializer to start from other weights"
        )


def with_stored_kinds(architecture: Architecture, about: Mapping[str, Any]) -> Architecture:
    """An architecture, with the kinds of layers of a checkpoint's network if it is the same otherwise."""
    stored = architecture_from_dict(about.get("architecture") or architecture.to_dict())
    return stored if stored.usual_layers == architecture.usual_layers else architecture


def stored_normalization(about: Mapping[str, Any]) -> Normalization | None:
    """The normalization of a checkpoint's network; None if unknown, and for texts."""
    if about.get("normalization") is None:
        return None
    stored = about["normalization"]
    return Normalization(tuple(stored["mean"]), tuple(stored["std"]))


def order_classes(
    checkpoint: dict[str, Any], architecture: Architecture, tasks: Mapping[str, Task], is_mapped: bool
) -> None:
    """Reorder the classes of a checkpoint's head to the order of the data's classes, before its weights are loaded.

    Args:
        checkpoint: The checkpoint, whose entry ``lgx`` describes it.
        architecture: The network's architecture.
        tasks: The tasks of the data, by name.
        is_mapped: Whether the head may be reordered. Not in training, because averaged weights and the optimizer's
            state have the same order; a hypernetwork has no head.
    """
    about = checkpoint["lgx"]
    stored: dict[str, Any] = about.get("task", {})
    trained: dict[str, dict[str, Any]] = about.get("tasks") or {stored.get("name", ""): stored}
    is_only = len(tasks) == len(trained) == 1
    for name, task in tasks.items():
        trained_task = next(iter(trained.values())) if is_only else trained.get(name, {})
        reading = Reading.of(trained_task) if trained_task else task.reading
        if reading != task.reading:
            raise UserError(
                f"--ckpt_path: images of {name} were read with data.resize {reading.resize} and data.value_range "
                f"{[*reading.value_range] or None} in training; give the same"
            )
        order = class_order(trained_task.get("class_names") or (), task.class_names, "--ckpt_path")
        if order is None:
            continue
        if not (is_only and is_mapped):
            raise UserError(
                f"--ckpt_path: the classes of {name} have another order than in training; restore their order"
            )
        checkpoint["state_dict"] = with_class_order(checkpoint["state_dict"], architecture, order, "network.")
