"""Change the arithmetic of lgx one operation at a time, and run the tests that execute it: ``make mutants``.

Each file is compiled once with all of its mutants, each behind a switch: ``a < b`` becomes
``(a >= b) if __mutant__(7) else a < b``. A process runs the tests, and records which switches each of them passes. For
each mutant of a seeded sample another process turns the switch on before it imports lgx, and runs the tests that pass
it, the fastest first, until one fails.

What is changed: operators of arithmetic; ``<`` to ``>=`` and so on; numbers that are calculated or compared with; sums,
means, extremes and rounding; the sign of numbers that functions return. What is not: ``<`` to ``<=``, which is the same
for continuous values; seeds and elements of tables that are returned, because another seed or sign is as good;
annotations, defaults, messages and figures.
"""

import ast
import builtins
import copy
import importlib
import os
import pickle
import random
import resource
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.paths import ROOT

ROOMS = {
    "methods": "lgx/methods/**/[!_]*.py", "initialization": "lgx/initialization/**/[!_]*.py",
    "components": "lgx/components/[!_]*.py", "statistics": "lgx/results/statistics.py",
    "samplers": "data_modules/**/s[ap][ml][pi]*.py",
}  # fmt: skip
TESTS = """methods initialization components core data_modules hypernet/test_sliced_linear.py training/test_schedule.py
    training/test_updates.py results/test_statistics.py results/test_standings.py planning
    training/test_class_names.py""".split()
LEFT_OUT = ("figures.py", "ticks.py")
SECONDS = 40.0
"""Of tests that a mutant is given."""
_SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "sum": "mean", "mean": "sum", "floor": "ceil", "ceil": "floor", "round": "floor"}
_RETURNS = {"Tensor": ast.USub, "float": ast.USub, "int": ast.USub, "bool": ast.Not}


class Mutant(NamedTuple):
    """A change: its room and file, the function and what becomes of an expression."""

    room: str
    file: str
    words: str


KNOWN: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")) or {}
"""Mutants that no test can tell from the code: file -> mutant -> reason."""


def variants(node: ast.AST) -> Iterator[ast.expr]:
    """What one expression may become."""
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPS:
        new.op = _SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        new.ops[0] = _SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        new = new.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        new.value = node.value + 1 or 2
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _CALLS:
        new.func.attr = _CALLS[new.func.attr]
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("min", "max"):
        new.func.id = _CALLS[new.func.id]
    else:
        return
    yield new


class Switches(ast.NodeTransformer):
    """Put a switch around each expression with variants, but not in annotations, defaults, messages and figures.

    Of the constants it changes those that are calculated or compared with.
    """

    def __init__(self, found: list[Mutant], room: str, file: str) -> None:
        self.found, self.room, self.file = found, room, file
        self._scope = self._returns = ""
        self._parent = ast.AST()

    def visit(self, node: ast.AST) -> Any:
        is_figure = isinstance(node, ast.FunctionDef) and "figure" in node.name
        if is_figure or isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.MatchValue):
            return node
        outer, original = (self._scope, self._returns, self._parent), copy.deepcopy(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            annotation = getattr(node, "returns", None)
            self._scope, self._returns = f"{self._scope}{node.name}.", ast.unparse(annotation) if annotation else ""
        self._parent = original
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list", "defaults", "kw_defaults", "op", "ops", "ctx"):
                setattr(node, field, [*map(self._part, value)] if isinstance(value, list) else self._part(value))
        scope, returns, parent = self._scope, self._returns, self._parent = outer
        is_free = isinstance(node, ast.Constant) and not isinstance(parent, ast.BinOp | ast.Compare | ast.AugAssign)
        mutants = [*variants(original)] if isinstance(node, ast.expr) and not is_free else []
        is_number = not isinstance(original, ast.Constant | ast.Subscript) and "seed" not in scope
        if isinstance(parent, ast.Return) and returns in _RETURNS and is_number:
            mutants.append(ast.UnaryOp(_RETURNS[returns](), original))
        new: Any = node
        for mutant in mutants:
            words = f"{scope.rstrip('.')}: {ast.unparse(original)} -> {ast.unparse(mutant)}"
            if isinstance(original, ast.Constant) and isinstance(parent, ast.expr | ast.keyword):
                words += f" in {ast.unparse(parent)}"
            switch = ast.parse(f"__mutant__({len(self.found)})", mode="eval").body
            self.found.append(Mutant(self.room, self.file, " ".join(words.split())))
            new = ast.copy_location(ast.IfExp(switch, mutant, new), original)
        return new

    def _part(self, value: Any) -> Any:
        return self.visit(value) if isinstance(value, ast.AST) else value


class Mutants:
    """All mutants, and which of them is on. It finds the modules with switches, and is a plugin of pytest."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.all: list[Mutant] = []
        self.code: dict[str, tuple[str, Any]] = {}
        self.on, self.passed, self.imported = -1, set[int](), frozenset[int]()
        self.parts: dict[str, tuple[float, set[int]]] = {}  # seconds and switches of tests and fixtures
        self.fixtures: dict[str, list[str]] = {}  # of each test
        self.tests: dict[str, tuple[float, set[int]]] = {}  # seconds and switches of tests with their fixtures
        for room, pattern in ROOMS.items():
            for file in sorted(file for file in ROOT.glob(pattern) if file.name not in LEFT_OUT):
                name = file.relative_to(ROOT).as_posix()
                tree = Switches(self.all, room, name).visit(ast.parse(file.read_text(encoding="utf-8")))
                code = compile(ast.fix_missing_locations(tree), str(file), "exec")
                self.code[name.removesuffix(".py").replace("/", ".")] = str(file), code
        self.chosen: list[int] = []
        for room in ROOMS:
            own = [n for n, m in enumerate(self.all) if m.room == room and options.only in f"{m.file} {m.words}"]
            count = min(options.sample or len(own), len(own))
            self.chosen += random.Random(f"{options.seed} {room}").sample(own, count)

    def switch(self, number: int) -> bool:
        """Called by every switch."""
        self.passed.add(number)
        return number == self.on

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """See ``sys.meta_path``."""
        if name not in self.code:
            return None
        loader: Any = SourceFileLoader(name, self.code[name][0])
        loader.get_code = lambda _: self.code[name][1]
        return spec_from_file_location(name, self.code[name][0], loader=loader)

    def pytest_collection_finish(self) -> None:
        self.imported = frozenset(self.passed)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        return (yield from self._measured(f"{fixturedef.baseid} {fixturedef.argname}"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[Any]:
        definitions = item._fixtureinfo.name2fixturedefs.items()
        self.fixtures[item.nodeid] = [f"{known[-1].baseid} {name}" for name, known in definitions]
        return (yield from self._measured(item.nodeid))

    def _measured(self, name: str) -> Iterator[Any]:
        outer, self.passed, began = self.passed, set(), time.monotonic()
        result = yield  # a test that fails is not recorded
        self.parts[name], self.passed = (time.monotonic() - began, self.passed), outer
        return result

    def run(self, tests: list[str], on: int = -1) -> int:
        """Run tests in a process that has not imported lgx, with a mutant until the first fails; 0 if none does."""
        self.on, builtins.__mutant__ = on, self.switch  # type: ignore[attr-defined]
        sys.meta_path.insert(0, self)
        with tempfile.TemporaryDirectory() as folder:
            words = ["-q", *["-x"] * (on >= 0), "-p", "no:cacheprovider", f"--basetemp={folder}/t", *tests]
            return int(pytest.main(words, [self]))

    def record(self, tests: list[str], place: Path) -> int:
        """Run tests, and write which switches imports pass, and the seconds and switches of each test."""
        self.run(tests)
        for test, fixtures in self.fixtures.items():
            parts = [self.parts[name] for name in (test, *fixtures) if name in self.parts and test in self.parts]
            passed = {number for _, numbers in parts for number in numbers}
            self.tests[test] = sum(seconds for seconds, _ in parts), passed
        place.write_bytes(pickle.dumps((self.imported, self.tests)))
        return 0

    def survives(self, number: int) -> bool:
        """Whether a mutant is alive; it is printed then. One with a known reason is not tried."""
        names, reason, mutant = self._tests_of(number), self.reason(number), self.all[number]
        alive = bool(reason) or not names or forked(partial(self.run, names, number)) == 0
        if alive:
            note = reason or ("" if names else "no test passes it")
            print(f"survives   {mutant.file} {mutant.words}  {note}", flush=True)
        return alive

    def reason(self, number: int) -> str:
        """Why no test can notice a mutant, if this is known."""
        return KNOWN.get(self.all[number].file, {}).get(self.all[number].words, "")

    def _tests_of(self, number: int) -> list[str]:
        """The fastest tests that pass a switch; of one that an import passes, those that pass any of its file."""
        total, names, own = 0.0, list[str](), {number}
        if number in self.imported:
            own = {other for other, mutant in enumerate(self.all) if mutant.file == self.all[number].file}
        for seconds, name in sorted((seconds, name) for name, (seconds, passed) in self.tests.items() if own & passed):
            total += seconds
            names += [name] if total < SECONDS or not names else []
        return names


def forked(work: Callable[[], int]) -> int:
    """Work in a process of its own, without output; below 0 if it was killed, as by a limit."""
    if (pid := os.fork()) == 0:
        for kind, most in ((resource.RLIMIT_CPU, 1200), (resource.RLIMIT_DATA, 12 * 2**30)):
            resource.setrlimit(kind, (most, most))  # a mutant may compute or collect without end
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    """See the module."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="mutants of each room; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="mutants whose file and words contain this")
    mutants, place = Mutants(parser.parse_args()), Path(tempfile.mkdtemp()) / "passed"
    for name in ("lightning.pytorch", "torchmetrics", "timm.data", "jsonargparse", "scipy.stats", "torchvision"):
        importlib.import_module(name)
    files = [str(f) for name in TESTS for f in sorted((ROOT / "tests" / name).rglob("test_*.py")) or [f"tests/{name}"]]
    forked(partial(mutants.record, files, place))
    mutants.imported, mutants.tests = pickle.loads(place.read_bytes())
    with ThreadPoolExecutor(2) as pool:
        survives = pool.map(mutants.survives, mutants.chosen)
        alive = [number for number, lives in zip(mutants.chosen, survives, strict=True) if lives]
    tried, share = len(mutants.chosen), len(alive) / max(1, len(mutants.chosen))
    known = sum(bool(mutants.reason(number)) for number in alive)
    print(f"mutants: {tried} tried, {len(alive)} survive ({share:.1%}), {known} of them with a reason")
    sys.exit(share > 0.05 or known < len(alive))


if __name__ == "__main__":
    main()
