"""Check the values of a parsed configuration that no type describes: seeds, names of folders, numbers of optimizers."""

import math
from collections.abc import Iterator
from typing import Any

from jsonargparse import Namespace

from lgx.core.names import check_line, check_name
from lgx.core.seed import check_seed
from lgx.errors import UserError

_NEVER_NEGATIVE = ("lr", "weight_decay", "eps")


def check_parsed(config: Namespace) -> None:
    """Refuse values that would fail later, without their key, or write outside the run's folder.

    Args:
        config: A parsed configuration of a training command.

    Raises:
        UserError: If there is one; the message names its key.
    """
    if not isinstance(config.seed_everything, bool):
        check_seed(config.seed_everything, "--seed_everything")
    check_line(config.runs_dir, "--runs_dir")
    check_name(config.experiment, "--experiment")
    if config.name is not None:
        check_name(config.name, "--name")
    for place, value in _flat(config):
        if place.endswith((".filename", ".sub_dir")) and isinstance(value, str):
            check_name(value, place)
        elif isinstance(value, float):
            _check_number(place, value)


def _check_number(place: str, value: float) -> None:
    """Refuse NaN, and for an optimizer and its schedule infinity and negative rates."""
    of_optimizer = any(part.endswith(("optimizer", "scheduler")) for part in place.split("."))
    if math.isnan(value) or (of_optimizer and math.isinf(value)):
        raise UserError(f"{place}: expected a finite number, got {value}")
    if of_optimizer and value < 0 and place.rpartition(".")[2] in _NEVER_NEGATIVE:
        raise UserError(f"{place}: expected a number of at least 0, got {value:g}")


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """All values with their keys as the command line spells them."""
    if isinstance(value, Namespace):
        value = vars(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, place if key == "init_args" else f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _flat(inner, place)
    else:
        yield place, value
