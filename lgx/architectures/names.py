"""The papers' names of architectures."""

from lgx.architectures.base import Architecture
from lgx.architectures.registry import NAMED


def name_of(architecture: Architecture) -> str:
    """The first of the papers' names that fits (``6-Small``), else :meth:`Architecture.spec`.

    The number of classes and the kind do not count, because they belong to the task.
    """
    plain = architecture.without_task()
    return next((name for name, named in NAMED.items() if named == plain), architecture.spec())
