"""Change the arithmetic of lgx one operation at a time, and run the tests that execute it: ``make mutants``.

Each file is compiled once with all of its mutants, each behind a switch: ``a < b`` becomes
``(a <= b) if __mutant__(7) else a < b``. One run of the tests records which of them execute which switch. Then each
mutant of a seeded sample has a process, forked from one that has imported torch, which runs these tests, the fastest
first, until one fails. Constants of modules and defaults of arguments count, because each process imports lgx itself.
"""

import argparse
import ast
import builtins
import copy
import importlib
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

ROOMS = {
    "methods": "lgx/methods/**/*.py",
    "initialization": "lgx/initialization/**/*.py",
    "components": "lgx/components/*.py",
    "statistics": "lgx/results/statistics.py",
    "samplers": "data_modules/*s*pl*.py",
}
DRAWING = ("__init__.py", "figures.py", "ticks.py")
"""Files without arithmetic that matters: specifications, and the sizes of figures."""
TESTS = """methods initialization components core data_modules hypernet/test_sliced_linear.py training/test_schedule.py
    training/test_updates.py results/test_statistics.py results/test_standings.py""".split()
KNOWN = Path(__file__).with_suffix(".yaml")
"""Survivors with reasons: file -> mutant -> reason."""
SECONDS = 40.0
"""Of tests that a mutant is given; the fastest that execute it."""

_SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_RETURNS = {"Tensor": ast.USub, "float": ast.USub, "int": ast.USub, "bool": ast.Not}
_CALLS = {"min": "max", "max": "min", "sum": "mean", "mean": "sum", "floor": "ceil", "ceil": "floor", "round": "int"}


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """The mutants of one expression."""
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPS:
        new.op = _SWAPS[type(node.op)]()
        yield new
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        yield ast.parse(f"-(-({ast.unparse(node.left)}) // ({ast.unparse(node.right)}))", mode="eval").body
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        new.ops[0] = _SWAPS[type(node.ops[0])]()
        yield new
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield new.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        new.value = not node.value if isinstance(node.value, bool) else node.value + 1 or 2
        yield new
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in _CALLS and (name not in ("sum", "round") or isinstance(node.func, ast.Attribute)):
            setattr(new.func, "id" if isinstance(node.func, ast.Name) else "attr", _CALLS[name])
            yield new


class Switches(ast.NodeTransformer):
    """Put a switch around each mutable expression of a file, outside of annotations, decorators and messages.

    Attributes:
        found: The mutants in words, by the number of their switch.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.found: list[str] = []
        self._scope: list[str] = []
        self._parent: ast.AST = ast.Pass()
        self._returns = ""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.MatchValue):
            return node
        scope, returns, parent, original = self._scope, self._returns, self._parent, copy.deepcopy(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            annotation = getattr(node, "returns", None)
            self._scope, self._returns = [*scope, node.name], ast.unparse(annotation) if annotation else ""
        self._parent = original
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list", "op", "ops", "ctx"):
                setattr(node, field, [self._part(v) for v in value] if isinstance(value, list) else self._part(value))
        self._scope, self._parent = scope, parent
        new: Any = node
        mutants = [*variants(original)] if isinstance(node, ast.expr) else []
        if isinstance(parent, ast.Return) and returns in _RETURNS:
            mutants.append(ast.UnaryOp(_RETURNS[returns](), original))
        self._returns = returns
        for mutant in mutants:
            number = self.first + len(self.found)
            self.found.append(f"{'.'.join(self._scope)}: {self._words(original, mutant, parent)}")
            switch = ast.parse(f"__mutant__({number})", mode="eval").body
            new = ast.copy_location(ast.IfExp(switch, mutant, new), original)
        return new

    def _part(self, value: Any) -> Any:
        return self.visit(value) if isinstance(value, ast.AST) else value

    @staticmethod
    def _words(node: ast.AST, mutant: ast.AST, parent: ast.AST) -> str:
        """``step < warm -> step <= warm``; of a constant with what is around it."""
        where = f" in {ast.unparse(parent)}" if isinstance(node, ast.Constant) and isinstance(parent, ast.expr) else ""
        return " ".join(f"{ast.unparse(node)} -> {ast.unparse(mutant)}{where}".split())[:160]


def targets(root: Path = ROOT) -> dict[str, dict[str, Path]]:
    """Room -> module -> file."""
    return {
        room: {".".join(file.relative_to(root).with_suffix("").parts): file for file in sorted(root.glob(pattern))
               if file.name not in DRAWING} for room, pattern in ROOMS.items()
    }  # fmt: skip


class Mutants:
    """All mutants, and the modules with their switches.

    Attributes:
        keys: (room, file, mutant in words) by the number of the switch.
        active: Number of the switch that is on.
        hits: Switches that were passed.
    """

    def __init__(self) -> None:
        self.keys: list[tuple[str, str, str]] = []
        self.modules: dict[str, Path] = {}
        self._code: dict[str, Any] = {}
        self.active, self.hits = -1, set[int]()
        for room, files in targets().items():
            for module, file in files.items():
                switches = Switches(len(self.keys))
                tree = ast.fix_missing_locations(switches.visit(ast.parse(file.read_text(encoding="utf-8"))))
                self.keys += [(room, file.relative_to(ROOT).as_posix(), words) for words in switches.found]
                self.modules[module], self._code[module] = file, compile(tree, str(file), "exec")

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Import the changed modules; see ``sys.meta_path``."""
        if name not in self.modules:
            return None
        file = str(self.modules[name])
        loader = SourceFileLoader(name, file)
        loader.get_code = self._code.__getitem__  # type: ignore[assignment, method-assign]
        return spec_from_file_location(name, file, loader=loader)

    def install(self) -> None:
        """Switch on the mutant ``active`` in this process, which must not have imported lgx."""

        def passed(number: int) -> bool:
            self.hits.add(number)
            return number == self.active

        builtins.__mutant__ = passed  # type: ignore[attr-defined]
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]


class Recorder:
    """A plugin of pytest that records which switches each test passes, with its fixtures, and how long it takes."""

    def __init__(self, mutants: Mutants) -> None:
        self.mutants = mutants
        self.fixtures: dict[tuple[str, str], tuple[float, set[int]]] = {}
        self.tests: dict[str, tuple[float, set[int]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        outer, self.mutants.hits, began = self.mutants.hits, set(), time.monotonic()
        try:
            return (yield)
        finally:
            self.fixtures[fixturedef.baseid, fixturedef.argname] = time.monotonic() - began, self.mutants.hits
            self.mutants.hits = outer

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[Any]:
        self.mutants.hits, began = set(), time.monotonic()
        result = yield  # a test that fails is not recorded
        definitions = (known[-1] for known in item._fixtureinfo.name2fixturedefs.values())
        used = [self.fixtures.get((known.baseid, known.argname), (0.0, set())) for known in definitions]
        seconds = time.monotonic() - began + sum(own for own, _ in used)
        self.tests[item.nodeid] = seconds, self.mutants.hits.union(*(hits for _, hits in used))
        return result


def record(mutants: Mutants, files: Sequence[str], out: Path) -> int:
    """In a process of its own: run test files, and write what they pass; what imports pass counts for their file."""
    mutants.install()
    for module in mutants.modules:
        importlib.import_module(module)
    imported, plugin = mutants.hits, Recorder(mutants)
    pytest.main(["-q", "-p", "no:cacheprovider", f"--basetemp={out}.tmp", *files], plugins=[plugin])
    of_file: dict[str, set[int]] = defaultdict(set)
    for number in imported:
        of_file[mutants.keys[number][1]].add(number)
    for _, hits in plugin.tests.values():
        for file in {mutants.keys[number][1] for number in hits}:
            hits |= of_file[file]
    out.write_bytes(pickle.dumps(plugin.tests))
    return 0


def run(mutants: Mutants, number: int, tests: Sequence[str], out: Path) -> int:
    """In a process of its own: run tests with one mutant; 0 if it survives."""
    mutants.active = number
    mutants.install()
    return pytest.main(["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={out}.tmp", *tests])


def in_processes(
    works: Iterable[tuple[Any, Callable[[Path], int], float]], jobs: int
) -> Iterator[tuple[Any, int, Path]]:
    """Fork a process for each work (its name, what it does with a place for files, seconds that it may take)."""
    folder, waiting, running = Path(tempfile.mkdtemp()), deque(works), dict[int, tuple[Any, float, Path]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            name, work, limit = waiting.popleft()
            out = folder / str(len(waiting))
            if (pid := os.fork()) == 0:
                os.setsid()
                for stream in (1, 2):
                    os.dup2(os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT), stream)
                os._exit(work(out))
            running[pid] = name, time.monotonic() + limit, out
        time.sleep(0.05)
        for pid, (name, end, out) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended or time.monotonic() > end:
                with suppress(ProcessLookupError):  # also what it has started
                    os.killpg(pid, signal.SIGKILL)
                if not ended:
                    os.waitpid(pid, 0)
                del running[pid]
                yield name, os.waitstatus_to_exitcode(status) if ended else -signal.SIGKILL, out
                shutil.rmtree(f"{out}.tmp", ignore_errors=True)
    shutil.rmtree(folder)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=main.__module__)
    parser.add_argument("--sample", type=int, default=60, help="mutants of each room; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants whose file and words contain this")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="below tests/")
    parser.add_argument("--hits", type=Path, help="keep what the tests pass in a file, or read it from there")
    options = parser.parse_args()
    for name in (
        "lightning.pytorch",
        "torchmetrics",
        "timm.data",
        "timm.optim",
        "jsonargparse",
        "scipy.stats",
        "torchvision",
    ):
        importlib.import_module(name)
    mutants, known = Mutants(), yaml.safe_load(KNOWN.read_text(encoding="utf-8")) or {}
    files = [
        str(f)
        for name in options.tests
        for f in sorted((ROOT / "tests").glob(f"{name}/**/test_*.py" if "." not in name else name))
    ]
    if options.hits and options.hits.is_file():
        tests = pickle.loads(options.hits.read_bytes())
    else:
        tests = {}
        works = [(part, partial(record, mutants, files[part :: options.jobs]), 3600.0) for part in range(options.jobs)]
        for _, _code, out in in_processes(works, options.jobs):
            tests |= pickle.loads(out.read_bytes())
        if options.hits:
            options.hits.write_bytes(pickle.dumps(tests))
    print(f"{len(mutants.keys):,} mutants, {len(tests):,} tests", flush=True)
    works, survived = [], []
    for room in ROOMS:
        own = [n for n, key in enumerate(mutants.keys) if key[0] == room and options.only in f"{key[1]} {key[2]}"]
        count = min(options.sample or len(own), len(own))
        for number in sorted(random.Random(f"{options.seed} {room}").sample(own, count)):
            passing, total, chosen = sorted((s, name) for name, (s, hits) in tests.items() if number in hits), 0.0, []
            for seconds, name in passing:
                total += seconds
                if total < SECONDS:
                    chosen.append(name)
            if mutants.keys[number][2] in known.get(mutants.keys[number][1], {}) or not chosen:
                survived.append(number)
            else:
                works.append((number, partial(run, mutants, number, chosen), 30 + 3 * SECONDS))
    tried = len(works) + len(survived)
    survived += [number for number, code, _ in in_processes(works, options.jobs) if code == 0]
    reasons = 0
    for number in sorted(survived):
        room, file, words = mutants.keys[number]
        reason = known.get(file, {}).get(words, "")
        reasons += bool(reason)
        print(f"survives   {file} {words}  {reason}")
    print(
        f"mutants: {tried} tried, {tried - len(survived)} killed, {len(survived)} survive "
        f"({len(survived) / max(1, tried):.1%}), of them {reasons} with a reason"
    )
    sys.exit(len(survived) > 0.05 * tried or reasons < len(survived))


if __name__ == "__main__":
    main()
