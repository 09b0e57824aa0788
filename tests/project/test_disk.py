"""A full disk: one sentence names the file, existing files stay as they are, and a run can be resumed."""

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import ARCH, arguments, lgx, ok


@contextmanager
def no_file_larger_than(limit: int) -> Iterator[None]:
    """The system refuses to write more than this number of bytes to any file."""
    old, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    # Otherwise Python would keep truncated bytecode.
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (old, hard))
        sys.dont_write_bytecode = writes_bytecode


LEARNGENE = "final.learngene.safetensors"
COMMANDS: dict[str, Callable[[Path, Path, Path], list[object]]] = {
    "init": lambda out, images, run: ["init", "--source", run / LEARNGENE, "--arch", ARCH, "--out", out / "vit"],
    "embed": lambda out, images, run: [
        "embed", "--ancestor", run / LEARNGENE, "--data", images, "--out", out / "e.safetensors",
    ],
    "export": lambda out, images, run: ["export", run / "checkpoints" / "best.ckpt", "--out", out / "vit"],
    "export of a program": lambda out, images, run: ["export", run, "--out", out / "vit.pt2", "--force"],
    "predict": lambda out, images, run: ["predict", images / "test", "--model", run, "--out", out / "p.csv"],
    "compare": lambda out, images, run: ["compare", run, "--split=val", "--out", out / "report"],
}  # fmt: skip


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_named_and_leaves_every_file_as_it_was(tmp_path, images, ancestor, name):
    command = COMMANDS[name](tmp_path, images, ancestor)
    for has_result in (False, True):
        if has_result:
            ok(lgx(*command))
        before = contents(tmp_path)
        with no_file_larger_than(300):
            result = lgx(*command)
        assert result.code == 2, result.out
        assert f"lgx {command[0]}: cannot write {tmp_path}" in result.sentence
        assert ".tmp" not in result.sentence
        assert contents(tmp_path) == before


def test_a_full_disk_ends_a_run_that_can_be_resumed(tmp_path, images):
    base = arguments("fit", "Ancestor", images, tmp_path, "--name=r", "--ckpt_path=last")
    assert lgx(*base).code == 0
    folder = tmp_path / "test" / "r" / "seed0"
    before = (folder / "checkpoints" / "last.ckpt").read_bytes()
    with no_file_larger_than(len(before) // 2):
        result = lgx(*base, "--trainer.max_epochs=2")
    assert result.code == 2
    assert f"cannot write {folder / 'checkpoints'}" in result.sentence
    assert (folder / "checkpoints" / "last.ckpt").read_bytes() == before
    assert not [*folder.rglob("*.tmp")]
    ok(lgx(*base, "--trainer.max_epochs=2"))
    assert load_checkpoint(folder / "checkpoints" / "last.ckpt")["epoch"] == 1
