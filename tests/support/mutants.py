"""Change the arithmetic of lgx one operation at a time, and run the tests that execute it: ``make mutants``.

Each file is compiled once with all of its mutants, each behind a switch: ``a < b`` becomes
``(a <= b) if __mutant__(7) else a < b``. One run of the tests records which switches each of them passes. Then each
mutant of a seeded sample has a process, forked from one that has imported torch, which imports lgx with this switch on
and runs the tests that pass it, the fastest first, until one fails.
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
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.paths import ROOT

ROOMS = {
    "methods": ("lgx/methods/**/*.py",),
    "initialization": ("lgx/initialization/**/*.py",),
    "components": ("lgx/components/*.py",),
    "statistics": ("lgx/results/statistics.py",),
    "samplers": ("data_modules/*sampler*.py", "data_modules/splits.py"),
}
TESTS = """methods initialization components core data_modules hypernet/test_sliced_linear.py training/test_schedule.py
    training/test_updates.py results/test_statistics.py results/test_standings.py""".split()
KNOWN = Path(__file__).with_suffix(".yaml")
"""Survivors with reasons: file -> mutant -> reason."""
SECONDS = 40.0
"""Of tests that a mutant is given."""
_DRAWING = ("__init__.py", "figures.py", "ticks.py")
_SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "sum": "mean", "mean": "sum", "floor": "ceil", "ceil": "floor", "round": "int"}
_RETURNS = {"Tensor": ast.USub, "float": ast.USub, "int": ast.USub, "bool": ast.Not}


class Mutant(NamedTuple):
    """A change: the room and file, the function, and what becomes of an expression."""

    room: str
    file: str
    words: str


def variants(node: ast.AST) -> Iterator[ast.expr]:
    """What one expression may become."""
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
    elif isinstance(node, ast.Call) and (name := getattr(node.func, "id", getattr(node.func, "attr", ""))) in _CALLS:
        if isinstance(node.func, ast.Attribute) or name not in ("sum", "round"):
            setattr(new.func, "id" if isinstance(node.func, ast.Name) else "attr", _CALLS[name])
            yield new


class Switches(ast.NodeTransformer):
    """Put a switch around each expression with variants, outside of annotations, decorators and messages."""

    def __init__(self, found: list[Mutant], room: str, file: str) -> None:
        self.found, self.room, self.file = found, room, file
        self._scope: tuple[str, ...] = ()
        self._returns, self._parent = "", ast.AST()

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.MatchValue):
            return node
        scope, returns, parent, original = self._scope, self._returns, self._parent, copy.deepcopy(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            annotation = getattr(node, "returns", None)
            self._scope, self._returns = (*scope, node.name), ast.unparse(annotation) if annotation else ""
        self._parent = original
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list", "op", "ops", "ctx"):
                setattr(node, field, [self._part(v) for v in value] if isinstance(value, list) else self._part(value))
        mutants = [*variants(original)] if isinstance(node, ast.expr) else []
        if isinstance(parent, ast.Return) and returns in _RETURNS:
            mutants.append(ast.UnaryOp(_RETURNS[returns](), original))
        new: Any = node
        for mutant in mutants:
            words = f"{'.'.join(scope)}: {ast.unparse(original)} -> {ast.unparse(mutant)}"
            if isinstance(original, ast.Constant) and isinstance(parent, ast.expr | ast.keyword):
                words += f" in {ast.unparse(parent)}"
            words = " ".join(words.split())
            switch = ast.parse(f"__mutant__({len(self.found)})", mode="eval").body
            self.found.append(Mutant(self.room, self.file, words))
            new = ast.copy_location(ast.IfExp(switch, mutant, new), original)
        self._scope, self._returns, self._parent = scope, returns, parent
        return new

    def _part(self, value: Any) -> Any:
        return self.visit(value) if isinstance(value, ast.AST) else value


class Mutants:
    """All mutants, the number of the one that is on, and the numbers of the switches that were passed."""

    def __init__(self) -> None:
        self.all: list[Mutant] = []
        self.active, self.hits = -1, set[int]()
        self.code: dict[str, tuple[str, Any]] = {}
        for room, patterns in ROOMS.items():
            files = {file for pattern in patterns for file in ROOT.glob(pattern) if file.name not in _DRAWING}
            for file in sorted(files):
                name = file.relative_to(ROOT).as_posix()
                tree = Switches(self.all, room, name).visit(ast.parse(file.read_text(encoding="utf-8")))
                code = compile(ast.fix_missing_locations(tree), str(file), "exec")
                self.code[name.removesuffix(".py").replace("/", ".")] = str(file), code

    def passes(self, number: int) -> bool:
        """Called by every switch."""
        self.hits.add(number)
        return number == self.active

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Import the files with switches; see ``sys.meta_path``."""
        if name not in self.code:
            return None
        file, code = self.code[name]
        loader: Any = SourceFileLoader(name, file)
        loader.get_code = lambda _: code
        return spec_from_file_location(name, file, loader=loader)

    def stale(self, known: dict[str, dict[str, str]]) -> list[str]:
        """Entries of the survivors with reasons that are no mutants any more."""
        names = {(mutant.file, mutant.words) for mutant in self.all}
        return [f"{file} {words}" for file, own in known.items() for words in own if (file, words) not in names]

    def run(self, number: int, tests: Sequence[str], out: Path, plugins: Sequence[object] = ()) -> int:
        """In a process of its own: run tests until one fails, with one mutant; 0 if it survives."""
        self.active = number
        builtins.__mutant__ = self.passes  # type: ignore[attr-defined]
        sys.meta_path.insert(0, self)
        for module in self.code if plugins else ():
            importlib.import_module(module)
        imported, self.hits = self.hits, set()
        flags = ["-q", "-p", "no:cacheprovider", f"--basetemp={out}.tmp", *([] if plugins else ["-x"])]
        code = pytest.main([*flags, *tests], plugins=plugins)
        for recorder in plugins:
            assert isinstance(recorder, Recorder)
            out.write_bytes(pickle.dumps(recorder.found(imported)))
        return int(code)


class Recorder:
    """A plugin of pytest that records which switches each test passes, with its fixtures, and how long it takes."""

    def __init__(self, mutants: Mutants) -> None:
        self.mutants = mutants
        self.fixtures: dict[tuple[str, str], tuple[float, set[int]]] = {}
        self.tests: dict[str, tuple[float, set[int]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        outer, self.mutants.hits, began = self.mutants.hits, set(), time.monotonic()
        try:
            return (yield)
        finally:
            self.fixtures[fixturedef.baseid, fixturedef.argname] = time.monotonic() - began, self.mutants.hits
            self.mutants.hits = outer

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        self.mutants.hits, began = set(), time.monotonic()
        result = yield  # a test that fails is not recorded
        used = [(known[-1].baseid, name) for name, known in item._fixtureinfo.name2fixturedefs.items()]
        parts = [(time.monotonic() - began, self.mutants.hits), *(self.fixtures.get(key, (0.0, set())) for key in used)]
        self.tests[item.nodeid] = sum(seconds for seconds, _ in parts), set().union(*(hits for _, hits in parts))
        return result

    def found(self, imported: Iterable[int]) -> dict[str, tuple[float, set[Mutant]]]:
        """Seconds and mutants of each test; those of an import belong to all tests of the file."""
        mutants, of_file = self.mutants.all, defaultdict(set)
        for number in imported:
            of_file[mutants[number].file].add(mutants[number])
        own = {name: (seconds, {mutants[number] for number in hits}) for name, (seconds, hits) in self.tests.items()}
        return {
            name: (seconds, hits.union(*(of_file[file] for file in {mutant.file for mutant in hits})))
            for name, (seconds, hits) in own.items()
        }


def in_processes(
    works: Iterable[tuple[Any, Callable[[Path], int], float]], jobs: int
) -> Iterator[tuple[Any, int, Path]]:
    """Fork a process for each work: its name, what it does with a place for files, seconds that it may take."""
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


def recorded(mutants: Mutants, names: Sequence[str], jobs: int) -> dict[str, tuple[float, set[Mutant]]]:
    """Run the tests, and record what they pass."""
    files = [str(f) for name in names for f in sorted((ROOT / "tests" / name).rglob("test_*.py")) or [f"tests/{name}"]]
    parts = [partial(mutants.run, -1, files[part::jobs], plugins=[Recorder(mutants)]) for part in range(jobs)]
    outs = in_processes([(part, work, 3600.0) for part, work in enumerate(parts)], jobs)
    return {name: found for _, _, out in outs for name, found in pickle.loads(out.read_bytes()).items()}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="mutants of each room; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants whose file and words contain this")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="files and folders below tests/")
    parser.add_argument("--hits", type=Path, help="file that keeps what the tests pass, and is read if it exists")
    options = parser.parse_args()
    for name in ("lightning.pytorch", "torchmetrics", "timm.data", "jsonargparse", "scipy.stats", "torchvision"):
        importlib.import_module(name)
    mutants, known = Mutants(), yaml.safe_load(KNOWN.read_text(encoding="utf-8")) or {}
    if stale := mutants.stale(known):
        sys.exit(f"{KNOWN.name}: not in the code any more: {'; '.join(stale)}")
    if options.hits and options.hits.is_file():
        tests = pickle.loads(options.hits.read_bytes())
    else:
        tests = recorded(mutants, options.tests, options.jobs)
        if options.hits:
            options.hits.write_bytes(pickle.dumps(tests))
    print(f"{len(mutants.all):,} mutants, {len(tests):,} tests", flush=True)
    works, survived = [], []
    for room in ROOMS:
        own = [n for n, m in enumerate(mutants.all) if m.room == room and options.only in f"{m.file} {m.words}"]
        count = min(options.sample or len(own), len(own))
        for number in sorted(random.Random(f"{options.seed} {room}").sample(own, count)):
            mutant, chosen, total = mutants.all[number], [], 0.0
            for seconds, name in sorted((s, name) for name, (s, hits) in tests.items() if mutant in hits):
                total += seconds
                chosen += [name] if total < SECONDS or not chosen else []
            if mutant.words in known.get(mutant.file, {}) or not chosen:
                survived.append(number)
            else:
                works.append((number, partial(mutants.run, number, chosen), 30 + 3 * SECONDS))
    tried = len(works) + len(survived)
    for number, code, _ in in_processes(works, options.jobs):
        survived += [number] if code == 0 else []
        print(
            "." if code else f"\nsurvives   {mutants.all[number].file} {mutants.all[number].words}", end="", flush=True
        )
    reasons = [known.get(mutants.all[number].file, {}).get(mutants.all[number].words) for number in sorted(survived)]
    for number, reason in zip(sorted(survived), reasons, strict=True):
        print(f"\nsurvives   {mutants.all[number].file} {mutants.all[number].words}  {reason or ''}", end="")
    with_reason, share = sum(map(bool, reasons)), len(survived) / max(1, tried)
    print(
        f"\nmutants: {tried} tried, {tried - len(survived)} killed, {len(survived)} survive ({share:.1%}), "
        f"of them {with_reason} with a reason"
    )
    sys.exit(share > 0.05 or with_reason < len(survived))


if __name__ == "__main__":
    main()
