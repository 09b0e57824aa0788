"""Facts on the training of a network, which exported models name."""

from collections.abc import Mapping
from typing import Any

from lgx.artifacts.learngene import Learngene
from lgx.artifacts.public_names import public_name
from lgx.core.provenance import config_hash
from lgx.core.schema import LINE

_RECORD = "lgx_run"
"""Key of the record of its run in a checkpoint."""

_VERSIONS = ("commit", "lgx", "torch", "timm")


def origin_of_checkpoint(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Method, task, epochs, hash of the configuration, commit and versions, as far as a checkpoint names them."""
    about, record = checkpoint["lgx"], checkpoint.get(_RECORD)
    record = record if isinstance(record, dict) else {}
    task, config, versions = about.get("task"), record.get("config"), record.get("versions")
    facts = {
        "method": about.get("method"),
        "task": task.get("name") if isinstance(task, dict) else None,
        "epochs": about.get("epochs"),
        "config_hash": config_hash(config) if isinstance(config, str) else None,
        **{name: versions.get(name) for name in _VERSIONS if isinstance(versions, dict)},
    }
    return _plain(facts)


def origin_of_learngene(learngene: Learngene) -> dict[str, Any]:
    """Method, ancestor, task and version of lgx of a learngene."""
    facts = {
        "method": learngene.method,
        "ancestor": public_name(learngene.ancestor),
        "task": learngene.task.get("name"),
        "lgx": learngene.lgx_version,
    }
    return _plain(facts)


def _plain(facts: Mapping[Any, Any]) -> dict[str, Any]:
    """The facts that are whole numbers or lines of text; a foreign file may hold anything."""
    return {
        key: value
        for key, value in facts.items()
        if LINE.holds(key) and value != "" and (type(value) is int or LINE.holds(value))
    }
