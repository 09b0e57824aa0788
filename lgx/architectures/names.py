"""The names of architectures in messages and in results."""

from lgx.architectures.base import NAMED, Architecture


def name_of(architecture: Architecture) -> str:
    """Its name in messages: the papers' (``6-Small``), else :attr:`Architecture.short_spec`; without its task."""
    return _paper_name(architecture) or architecture.short_spec


def full_name(architecture: Architecture) -> str:
    """Its name in results: that of the papers, else :meth:`Architecture.spec`; the parser reads it."""
    return _paper_name(architecture) or architecture.spec()


def _paper_name(architecture: Architecture) -> str | None:
    plain = architecture.without_task()
    return next((name for name, named in NAMED.items() if named == plain), None)
