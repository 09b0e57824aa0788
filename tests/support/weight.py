"""How much code there is, and how much of it one command runs.

    python -m tests.support.weight                    lines of each package and room; functions; docstrings
    python -m tests.support.weight fit --config …     the same for the functions that a command of lgx runs

Lines are all lines of a file: code, docstrings, comments, blank ones; those of a function, from ``def`` to its end.
A command touches a file if it runs one of the file's functions; what an import alone runs does not count.
"""

import ast
import os
import sys
from collections import Counter
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("lgx", "data_modules")
MOST = {"lgx": 34_850, "tests": 34_350, "data_modules": 9_400}
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


def trace(command: list[str]) -> None:
    """Run a command of lgx in this process, then print the files whose functions it ran, with their lines."""
    seen: set[tuple[str, int]] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    def report() -> None:
        if sys.getprofile() is None:  # reported already
            return
        sys.setprofile(None)
        lines = Counter({path: count for path in {file for file, _ in seen} if (count := _lines_run(path, seen))})
        for path, count in sorted(lines.items()):
            print(f"{count:6}  {Path(path).relative_to(ROOT)}", file=sys.stderr)
        print(f"{len(lines)} files, {lines.total():,} lines of functions", file=sys.stderr, flush=True)

    leave = os._exit

    def end(code: int) -> None:
        report()
        leave(code)

    os._exit = end  # lgx ends a run so, which leaves atexit out
    sys.argv = ["lgx", *command]
    sys.setprofile(profile)
    from lgx.cli import program

    try:
        program()
    finally:
        report()


def _lines_run(file: str, seen: set[tuple[str, int]]) -> int:
    path = Path(file)
    if not any(path.is_relative_to(ROOT / package) for package in PACKAGES):
        return 0
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function)]
    return sum(extent(node) for node in functions if (file, _first_line(node)) in seen)


def _first_line(function: Function) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


if __name__ == "__main__":
    if sys.argv[1:]:
        trace(sys.argv[1:])
    elif not print_packages():
        sys.exit("a package has more lines than it may have")
