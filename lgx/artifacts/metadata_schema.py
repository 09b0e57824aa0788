"""Schemas of the tasks and architectures that files describe."""

from collections.abc import Mapping
from typing import Any, get_args

from lgx.architectures import Architecture, architecture_from_dict
from lgx.core.schema import CLASSES, LINE, NUMBERS, POSITIVE, Field, at_most, check_fields, list_of, one_of
from lgx.core.task import Kind
from lgx.errors import UserError

AGAIN = "save it again"
"""Remedy for a file that contradicts itself."""

TASK: Mapping[str, Field] = {
    "name": LINE,
    "num_classes": CLASSES,
    "kind": one_of(*get_args(Kind)),
    "metric": LINE,
    "num_train": at_most(2**62),
    "in_chans": at_most(1024),
    "img_size": at_most(65_536),
    "mean": NUMBERS,
    "std": POSITIVE,
    "class_names": list_of(Field(lambda value: isinstance(value, str), "texts")),
    "max_len": at_most(2**31),
    "vocab_size": at_most(2**31),
}
"""Keys of ``Task.to_dict``; files may lack some."""


def described_architecture(values: Any, place: str) -> Architecture:
    """The architecture that a file describes.

    Args:
        values: What ``to_dict`` of an architecture gives.
        place: Where the values stand, for the message.

    Raises:
        UserError: If they do not describe an architecture.
    """
    try:
        return architecture_from_dict(check_fields(values, {}, f"{place}: architecture"))
    except UserError as error:
        raise UserError(f"{place}: {' '.join(str(error).split())}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{place}: its architecture is damaged ({error}); {AGAIN}") from error
