"""The structure of the code, read from its own imports."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]

ROOMS = (
    "commands", "results", "planning", "runs", "training", "methods", "hypernet", "components", "data_modules",
    "initialization", "artifacts", "architectures", "core", "host",
)  # fmt: skip
"""The rooms of lgx, and data_modules among them, from top to bottom: a room imports from those below it."""

ROOMS_OF_DATA = (
    "multi_task", "catalog", "registry", "suites", "sets", "own_images", "shards", "text", "images", "loading", "files",
)  # fmt: skip
"""The rooms of data_modules, and the modules beside them that import from rooms, from top to bottom."""

HALLWAY = ("cli", "errors", "__init__", "__main__")
"""Modules directly in lgx: the front door, and the exception that every room raises."""


@cache
def modules() -> dict[str, Path]:
    """Every module of lgx and data_modules by its dotted name."""
    found = {}
    for package in ("lgx", "data_modules"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text())


def imports_of(module: str) -> set[str]:
    """Modules that a module imports anywhere: at its top, inside functions, and for type checking."""
    found = set()
    for node in ast.walk(tree_of(modules()[module])):
        if isinstance(node, ast.ImportFrom) and node.module in modules():
            inner = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name for name in inner if name in modules()}
            if any(name not in modules() for name in inner):
                found.add(str(node.module))
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name in modules()}
    return found - {module}


def room_of(module: str) -> str:
    """The room of a module: the package below lgx, ``data_modules``, or ``hallway``."""
    package, *rest = module.split(".")
    if package != "lgx":
        return package
    return rest[0] if rest and rest[0] not in HALLWAY else "hallway"


def room_of_data(module: str) -> str:
    """The room of a module within data_modules, or ``hallway``."""
    package, *rest = module.split(".")
    return rest[0] if package == "data_modules" and rest and rest[0] in ROOMS_OF_DATA else "hallway"


def arrows(room: Callable[[str], str] = room_of) -> dict[tuple[str, str], list[str]]:
    """Arrows between rooms, each with the imports behind it; the hallway is left out."""
    found = defaultdict(list)
    for module in modules():
        for imported in imports_of(module):
            ends = room(module), room(imported)
            if ends[0] != ends[1] and "hallway" not in ends:
                found[ends].append(f"{module} imports {imported}")
    return dict(sorted(found.items()))


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a file names: variables, attributes, arguments, functions and classes."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of a file that are no docstrings, each with its line."""
    tree = tree_of(path)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings, notes
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.lineno, node.value


def classes_below(folder: Path) -> set[str]:
    """Names of the classes that are defined in the subfolders of a folder."""
    files = (path for path in folder.rglob("*.py") if path.parent != folder)
    return {node.name for path in files for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)}


def kinds_checked(path: Path) -> Iterator[tuple[int, str]]:
    """Names of classes that a file asks about with ``isinstance`` or ``issubclass``, each with its line."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                for name in re.findall(r"[A-Za-z_]\w*", ast.unparse(node.args[1])):
                    yield node.lineno, name
