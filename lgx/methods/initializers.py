"""The initializer that suits a source, by the name of a method or by what the source says."""

import inspect
from typing import Any

from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.errors import UserError
from lgx.initialization import Initializer
from lgx.methods.baselines.spec import PRETRAINED, RANDOM
from lgx.methods.registry import names_with_initializer, spec_of


def initializer_for(source: str | None = None, method: str | None = None, **options: Any) -> Initializer:
    """Find the initializer.

    Args:
        source: Learngene file, folder, checkpoint or timm name; None for a random start.
        method: Name of the method; by default what the learngene file says, and pretrain-finetune for other sources.
        options: Further arguments of the initializer; those that are None count as not given.

    Raises:
        UserError: If the method is unknown or does not take an option, or the source is missing or of another method.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if source is None:
        if method not in (None, RANDOM.name):
            raise UserError(f"method {method}: needs --source (a learngene file, a folder or a timm name)")
        return _made(_class_of(RANDOM.name), RANDOM.name, given)
    learngene = Learngene.load(source) if source.endswith(SUFFIX) else None
    if method is None:
        method = _default_method(learngene)
    if method == RANDOM.name:
        raise UserError(f"method random takes nothing from {source}; leave out --source")
    found = _class_of(method, learngene)
    found.check_learngene(source, method, learngene)
    return _made(found, method, given, source)


def _default_method(learngene: Learngene | None) -> str:
    """What a source is used for unless the user says more."""
    spec = spec_of(learngene.method, _content(learngene)) if learngene else None
    return learngene.method if learngene and spec and spec.initializer else PRETRAINED.name


def _class_of(method: str, learngene: Learngene | None = None) -> type[Initializer]:
    """The initializer of a method; a learngene file may be of a variant with a name of its own."""
    own_name = learngene is not None and learngene.method == method
    spec = spec_of(method, _content(learngene) if learngene and own_name else None)
    found = spec.initializer_class() if spec and (own_name or method in spec.names) else None
    if found is None:
        raise UserError(f"method {method!r} is unknown; known are {', '.join(names_with_initializer())}")
    return found


def _made(found: type[Initializer], method: str, given: dict[str, Any], *source: str) -> Initializer:
    for name in given:
        if not _takes(found, name):
            takers = [other for other in names_with_initializer() if _takes(_class_of(other), name)]
            raise UserError(f"--{name}: method {method} does not take it; --method is to be {' or '.join(takers)}")
    return found(*source, **given)


def _takes(initializer: type[Initializer], option: str) -> bool:
    return option in inspect.signature(initializer).parameters


def _content(learngene: Learngene) -> str | None:
    return "hypernetwork" if learngene.hypernet else None
