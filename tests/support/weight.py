"""How much code there is: lines of each package and room, lengths of functions, and the share of docstrings.

Lines are all lines of a file: code, docstrings, comments, blank ones; those of a function, from ``def`` to its end.
"""

import ast
import sys
from collections import Counter
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
MOST = {"lgx": 33_013, "tests": 30_728, "data_modules": 8_642}
"""Lines that each package may have."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def lines_of(path: Path) -> int:
    """Number of lines of a file."""
    return len(path.read_text().splitlines())


def documented(tree: ast.AST) -> list[ast.Expr]:
    """Docstrings of a module, its classes and functions, and those that follow constants and fields."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def extent(node: ast.AST) -> int:
    """Lines that a part of a file takes."""
    return node.end_lineno - node.lineno + 1


def print_packages() -> bool:
    """Print lines of packages and rooms; whether each package keeps its limit."""
    for package, most in MOST.items():
        files = sorted((ROOT / package).rglob("*.py"))
        rooms = Counter()
        for path in files:
            rooms[path.relative_to(ROOT / package).parts[0]] += lines_of(path)
        total = sum(rooms.values())
        trees = [ast.parse(path.read_text()) for path in files]
        functions = [extent(node) for tree in trees for node in ast.walk(tree) if isinstance(node, Function)]
        share = sum(extent(node) for tree in trees for node in documented(tree)) / total
        print(
            f"{package}: {total:,} lines of at most {most:,} in {len(files)} files; median function "
            f"{median(functions):.0f} lines; docstrings {share:.0%}"
        )
        if package != "tests":
            print("".join(f"  {lines:6,}  {room}\n" for room, lines in rooms.most_common() if not room.endswith(".py")))
        MOST[package] -= total
    return all(left >= 0 for left in MOST.values())


if __name__ == "__main__" and not print_packages():
    sys.exit("a package has more lines than it may have")
