"""Choose the initializer by the name of a method, or by the source's description."""

import inspect
from typing import Any, NamedTuple, get_type_hints

from docstring_parser import parse as parse_docstring

from lgx.artifacts.learngene import read_maker
from lgx.artifacts.sources import is_learngene
from lgx.core.seed import check_seed
from lgx.errors import UserError
from lgx.initialization import Initializer
from lgx.methods.baselines import PRETRAINED, RANDOM
from lgx.methods.registry import initializer_class, names_with_initializer, spec_of

_NOT_OFFERED = ("source", "seed", "name")
"""Parameters that commands set; ``name`` renames a method in results."""


class InitializerOption(NamedTuple):
    """An option of ``lgx init`` for the initializer.

    Attributes:
        name: The option, without dashes.
        type: Its type; None means that the option is not given.
        help: Its help text.
    """

    name: str
    type: Any
    help: str


def initializer_options() -> list[InitializerOption]:
    """``method`` and the options of all initializers, with the methods that take each.

    The texts come from the docstrings of the initializers' classes.
    """
    names = names_with_initializer()
    text = f"How to use the source: {', '.join(names)}; by default the method in its learngene file."
    options = [InitializerOption("method", str | None, text)]
    takers: dict[str, list[str]] = {}
    for method in names:
        for name in inspect.signature(_class_for(method)).parameters:
            takers.setdefault(name, []).append(method)
    for name, methods in takers.items():
        if name not in _NOT_OFFERED:
            options.append(_option(name, methods))
    return options


def _option(name: str, methods: list[str]) -> InitializerOption:
    initializer = _class_for(methods[0])
    documented = {
        entry.arg_name: entry.description or "" for entry in parse_docstring(initializer.__doc__ or "").params
    }
    text = " ".join(documented.get(name, "").replace("``", "").split())
    default = inspect.signature(initializer).parameters[name].default
    shown = "" if default in (None, inspect.Parameter.empty) else f" Default: {default}."
    kind = get_type_hints(initializer.__init__).get(name, str)
    return InitializerOption(name, kind | None, f"{text} Methods: {', '.join(methods)}.{shown}")


def takes_option(method: str | None, option: str) -> bool:
    """Whether the initializer of a known method has an option; False without a method."""
    return method in names_with_initializer() and _takes(_class_for(str(method)), option)


def initializer_for(
    source: str | None = None, method: str | None = None, seed: int | None = None, **options: Any
) -> Initializer:
    """Find the initializer.

    Args:
        source: Learngene file, folder, checkpoint or timm name, as the place of a
            :class:`~lgx.artifacts.sources.Source`; None for a method without a source.
        method: Name of the method; by default the method in the learngene file, pretrain-finetune for other sources,
            and a random start without a source.
        seed: Seed of random parameters, for initializers that draw them.
        options: More arguments of the initializer; None means not given.
    """
    if seed is not None:
        check_seed(seed, "seed")
    chosen = {name: value for name, value in options.items() if value is not None}
    if source is None:
        method = method or RANDOM.name
        initializer = _class_for(method)
        if initializer.reads_source:
            raise UserError(f"method {method}: needs --source (a learngene file, a folder or a timm name)")
        return _made(initializer, method, chosen, seed)
    maker, content = read_maker(source) if is_learngene(source) else (None, None)
    if method is None:
        spec = spec_of(maker, content) if maker else None
        method = maker if maker and spec and spec.initializer else PRETRAINED.name
    initializer = _class_for(method, content if maker == method else None, is_maker=maker == method)
    if not initializer.reads_source:
        raise UserError(f"method {method} does not read a source; leave out --source {source}")
    initializer.check_source(source, method, maker)
    return _made(initializer, method, chosen, seed, source)


def _class_for(method: str, content: str | None = None, is_maker: bool = False) -> type[Initializer]:
    """The initializer of a method; a learngene file (``is_maker``) may name a variant of the method."""
    spec = spec_of(method, content)
    initializer = initializer_class(spec) if spec and (is_maker or method in spec.names) else None
    if initializer is None:
        raise UserError(f"method {method!r} is unknown; known are {', '.join(names_with_initializer())}")
    return initializer


def _made(
    initializer: type[Initializer], method: str, options: dict[str, Any], seed: int | None, *source: str
) -> Initializer:
    for name in options:
        if not _takes(initializer, name):
            takers = [other for other in names_with_initializer() if _takes(_class_for(other), name)]
            reason = f"method {method} does not take it; use --method {' or '.join(takers)}"
            raise UserError(f"--{name}: {reason if takers else 'unknown option'}")
    if seed is not None and _takes(initializer, "seed"):
        options["seed"] = seed
    return initializer(*source, **options)


def _takes(initializer: type[Initializer], option: str) -> bool:
    return option in inspect.signature(initializer).parameters
