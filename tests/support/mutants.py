"""Change the arithmetic of lgx one operation at a time, and run the tests that execute it: ``make mutants``.

Each file is compiled once with all of its mutants, each behind a switch: ``a < b`` becomes
``(a <= b) if __mutant__(7) else a < b``. One run of the tests records which switches each of them passes. Then each
mutant of a seeded sample has a process, forked from one that has imported torch, which imports lgx with this switch on
and runs the tests that pass it, the fastest first, until one fails.
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
from argparse import ArgumentParser
from collections import defaultdict
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
    "samplers": "data_modules/*s[ap][ml][pi]*s*.py",
}  # fmt: skip
TESTS = """methods initialization components core data_modules hypernet/test_sliced_linear.py training/test_schedule.py
    training/test_updates.py results/test_statistics.py results/test_standings.py""".split()
SECONDS = 40.0
"""Of tests that a mutant is given."""
_SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "sum": "mean", "mean": "sum", "floor": "ceil", "ceil": "floor", "round": "floor"}
_RETURNS = {"Tensor": ast.USub, "float": ast.USub, "int": ast.USub, "bool": ast.Not}


class Mutant(NamedTuple):
    """A change: its room and file, the function and what becomes of an expression."""

    room: str
    file: str
    words: str


def known_survivors() -> dict[str, dict[str, str]]:
    """Mutants that no test can tell from the code: file -> mutant -> reason."""
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")) or {}


def variants(node: ast.AST) -> Iterator[ast.expr]:
    """What one expression may become."""
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPS:
        new.op = _SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        new.ops[0] = _SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        new = new.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        new.value = not node.value if isinstance(node.value, bool) else node.value + 1 or 2
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _CALLS:
        new.func.attr = _CALLS[new.func.attr]
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("min", "max"):
        new.func.id = _CALLS[new.func.id]
    else:
        return
    yield new


class Switches(ast.NodeTransformer):
    """Put a switch around each expression with variants, outside of annotations, decorators and messages."""

    def __init__(self, found: list[Mutant], room: str, file: str) -> None:
        self.found, self.room, self.file = found, room, file
        self._scope = self._returns = ""
        self._parent = ast.AST()

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.MatchValue):
            return node
        outer, original = (self._scope, self._returns, self._parent), copy.deepcopy(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            annotation = getattr(node, "returns", None)
            self._scope, self._returns = f"{self._scope}{node.name}.", ast.unparse(annotation) if annotation else ""
        self._parent = original
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list", "op", "ops", "ctx"):
                setattr(node, field, [*map(self._part, value)] if isinstance(value, list) else self._part(value))
        scope, returns, parent = self._scope, self._returns, self._parent = outer
        mutants = [*variants(original)] if isinstance(node, ast.expr) else []
        if isinstance(parent, ast.Return) and returns in _RETURNS:
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

    def __init__(self) -> None:
        self.all: list[Mutant] = []
        self.code: dict[str, tuple[str, Any]] = {}
        self.on, self.passed = -1, set[int]()
        self.parts: dict[str, tuple[float, set[int]]] = {}  # seconds and switches of tests and fixtures
        self.fixtures: dict[str, list[str]] = {}  # of each test
        for room, pattern in ROOMS.items():
            for file in sorted(file for file in ROOT.glob(pattern) if file.name not in ("figures.py", "ticks.py")):
                name = file.relative_to(ROOT).as_posix()
                tree = Switches(self.all, room, name).visit(ast.parse(file.read_text(encoding="utf-8")))
                code = compile(ast.fix_missing_locations(tree), str(file), "exec")
                self.code[name.removesuffix(".py").replace("/", ".")] = str(file), code

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

    def run(self, tests: list[str], *options: str, on: int = -1) -> int:
        """Run tests in a process that has not imported lgx."""
        self.on, builtins.__mutant__ = on, self.switch  # type: ignore[attr-defined]
        sys.meta_path.insert(0, self)
        for module in () if options else self.code:
            importlib.import_module(module)
        imported = self.passed
        with tempfile.TemporaryDirectory() as folder:
            fixed = ["-q", "-p", "no:cacheprovider", "--timeout=100", f"--basetemp={folder}/t"]
            code = int(pytest.main([*fixed, *options, *tests], [self]))
        self.passed = imported
        return code

    def record(self, tests: list[str], out: Path) -> int:
        """Write seconds and mutants of each test; what the import of a file passes belongs to all tests of the file."""
        self.run(tests)
        of_file: dict[str, set[Mutant]] = defaultdict(set)
        for mutant in map(self.all.__getitem__, self.passed):
            of_file[mutant.file].add(mutant)
        found = {}
        for test, fixtures in self.fixtures.items():
            parts = [self.parts[name] for name in (test, *fixtures) if name in self.parts and test in self.parts]
            passed = {self.all[number] for _, numbers in parts for number in numbers}
            found[test] = sum(seconds for seconds, _ in parts), passed.union(*(of_file[m.file] for m in passed))
        out.write_bytes(pickle.dumps(found))
        return 0


def forked(work: Callable[[], int]) -> int:
    """Work in a process of its own, without output; below 0 if it was killed, as after an hour of computing."""
    if (pid := os.fork()) == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))
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
    parser.add_argument("--hits", type=Path, default=Path(tempfile.mkdtemp()), help="folder of what the tests pass")
    options = parser.parse_args()
    for name in ("lightning.pytorch", "torchmetrics", "timm.data", "jsonargparse", "scipy.stats", "torchvision"):
        importlib.import_module(name)
    mutants, known, pool = Mutants(), known_survivors(), ThreadPoolExecutor(2)
    files = [str(f) for name in TESTS for f in sorted((ROOT / "tests" / name).rglob("test_*.py")) or [f"tests/{name}"]]
    outs = [options.hits / f"{part}.pickle" for part in (0, 1)]
    if not all(out.is_file() for out in outs):
        works = [partial(mutants.record, files[part::2], out) for part, out in enumerate(outs)]
        list(pool.map(forked, works))
    tests = {name: found for out in outs for name, found in pickle.loads(out.read_bytes()).items()}
    print(f"{len(mutants.all):,} mutants, {len(tests):,} tests", flush=True)
    chosen: list[int] = []
    for room in ROOMS:
        own = [n for n, m in enumerate(mutants.all) if m.room == room and options.only in f"{m.file} {m.words}"]
        chosen += random.Random(f"{options.seed} {room}").sample(own, min(options.sample or len(own), len(own)))

    def survives(number: int) -> bool:
        mutant, given, total = mutants.all[number], [], 0.0
        for seconds, name in sorted((s, name) for name, (s, passed) in tests.items() if mutant in passed):
            total += seconds
            given += [name] if total < SECONDS or not given else []
        if mutant.words in known.get(mutant.file, {}) or not given:
            return True
        return forked(partial(mutants.run, given, "-x", on=number)) == 0

    survived, reasons = 0, 0
    for number, alive in zip(chosen, pool.map(survives, chosen), strict=True):
        mutant = mutants.all[number]
        if alive:
            reason = known.get(mutant.file, {}).get(mutant.words, "")
            survived, reasons = survived + 1, reasons + bool(reason)
            print(f"survives   {mutant.file} {mutant.words}  {reason}", flush=True)
    tried, share = len(chosen), survived / max(1, len(chosen))
    print(
        f"mutants: {tried} tried, {tried - survived} killed, {survived} survive ({share:.1%}), "
        f"of them {reasons} with a reason"
    )
    sys.exit(share > 0.05 or reasons < survived)


if __name__ == "__main__":
    main()
