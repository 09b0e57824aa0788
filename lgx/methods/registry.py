"""All methods: those below this folder, and those of other installed packages.

A method is declared by a :class:`~lgx.methods.spec.MethodSpec` in the ``__init__.py`` of its folder. Another package
names the module that holds its specs in its entry points::

    [project.entry-points."lgx.methods"]
    my_method = "my_package"
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from itertools import chain
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import lgx.methods
from lgx.methods.spec import MethodSpec, imported

if TYPE_CHECKING:
    from lgx.initialization import Initializer
    from lgx.methods.base import Method

GROUP = "lgx.methods"
"""Group of the entry points of other packages."""


@cache
def specs() -> dict[str, MethodSpec]:
    """Every method by its name, in the order of tables and help."""
    declared = sorted((*_of_this_package(), *_of_other_packages()), key=lambda spec: (spec.order, spec.name))
    return {spec.name: spec for spec in declared}


def find_spec(name: str) -> MethodSpec | None:
    """The spec of a method by its name, an alias, or a variant's name in results; None where nobody declares it.

    A start adds words to a method's name, as ``sws_from_middle_narrowed`` does: the longest declared beginning counts.
    """
    by_name = _by_any_name()
    while name not in by_name and "_" in name:
        name = name.rpartition("_")[0]
    return by_name.get(name)


def spec_of(learngene_method: str, content: str | None = None) -> MethodSpec | None:
    """The spec behind a learngene file.

    Args:
        learngene_method: What the file names as its method, perhaps a variant.
        content: What the file holds. Hypernetworks of any name start descendants in the same way.
    """
    spec = find_spec(learngene_method)
    if spec is not None or content != "hypernetwork":
        return spec
    return next(spec for spec in specs().values() if spec.learngene == content)


def method_order(name: str) -> tuple[int, str]:
    """Sort key of a name in results: methods in the order of :func:`specs`, then other names.

    Args:
        name: ``sws (variant)`` has the place of ``sws``.
    """
    spec = find_spec(name.partition(" (")[0])
    return [*specs()].index(spec.name) if spec else len(specs()), name


def initializer_class(spec: MethodSpec) -> "type[Initializer] | None":
    """Import the default initializer of the method's descendants; None without one."""
    return None if spec.initializer is None else imported(spec.initializer)


@cache
def method_classes() -> dict[str, "type[Method]"]:
    """Classes that ``lgx fit --model`` trains, by class name."""
    classes = [imported(spec.module) for spec in specs().values() if spec.module]
    return {method.__name__: method for method in classes}


@cache
def initializer_classes() -> dict[str, "type[Initializer]"]:
    """Default initializers of all methods, by class name."""
    classes = filter(None, map(initializer_class, specs().values()))
    return {initializer.__name__: initializer for initializer in classes}


def load_all() -> None:
    """Import every method and initializer, which makes them known to the command line by their short names."""
    for name, imported_class in (method_classes() | initializer_classes()).items():
        if imported_class.__module__.startswith(f"{lgx.methods.__name__}."):
            getattr(lgx.methods, name)  # saved configurations then name the class by this shortest path


def class_path(name: str) -> str | None:
    """Path ``package.module:Class`` of a method's or initializer's class by its short name; None where unknown."""
    paths = chain(*((spec.module, spec.initializer) for spec in specs().values()))
    return next((path for path in paths if path and path.endswith(f":{name}")), None)


def names_with_initializer() -> list[str]:
    """Names that ``lgx init --method`` accepts."""
    return list(chain(*(spec.names for spec in specs().values() if spec.initializer)))


@cache
def _by_any_name() -> dict[str, MethodSpec]:
    trained = {spec.trained_name: spec for spec in specs().values() if spec.trained_name}
    declared: dict[str, MethodSpec] = {}
    for spec in specs().values():
        declared |= dict.fromkeys(spec.names, spec)
    return trained | declared


def _of_this_package() -> Iterator[MethodSpec]:
    for folder in iter_modules(lgx.methods.__path__):
        if folder.ispkg:
            yield from _declared_in(import_module(f"{lgx.methods.__name__}.{folder.name}"))


def _of_other_packages() -> Iterator[MethodSpec]:
    for entry in entry_points(group=GROUP):
        yield from _declared_in(entry.load())


def _declared_in(module: Any) -> list[MethodSpec]:
    """The specs that a module holds."""
    return [value for value in vars(module).values() if isinstance(value, MethodSpec)]
