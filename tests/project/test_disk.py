"""Full disks, unwritable folders, files damaged during a run: one sentence, and no partial files."""

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lightning.pytorch import Callback

from data_modules.shards.writing import write_shards
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.errors import UserError
from lgx.host.failures import write_errors
from lgx.host.files import atomic_path
from tests.support import fake_data
from tests.support.command_line import ARCH, arguments, lgx
from tests.support.disks import mounted


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


def full(place):
    return mounted(place, "-o", "size=4k")


def read_only(place):
    return mounted(place, "-o", "ro")


@contextmanager
def taken(place: Path) -> Iterator[Path]:
    """A file at the place of a folder."""
    place.write_text("taken")
    yield place


@contextmanager
def limited(place: Path) -> Iterator[Path]:
    """A folder in which files are limited to 300 bytes."""
    place.mkdir()
    with no_file_larger_than(300):
        yield place


COMMANDS: dict[str, Callable[[Path, Path, Path], list[object]]] = {
    "fit": lambda out, images, run: arguments("fit", "Ancestor", images, out / "runs", "--name=r"),
    "init": lambda out, images, run: [
        "init", "--source", run / "final.learngene.safetensors", "--arch", ARCH, "--out", out / "vit",
    ],
    "init of a file": lambda out, images, run: [
        "init", "--source", run / "final.learngene.safetensors", "--arch", ARCH, "--out", out / "vit.safetensors",
    ],
    "embed": lambda out, images, run: [
        "embed", "--ancestor", run / "final.learngene.safetensors", "--data", images, "--out", out / "e.safetensors",
    ],
    "export": lambda out, images, run: ["export", run / "checkpoints" / "best.ckpt", "--out", out / "vit"],
    "export of a program": lambda out, images, run: ["export", run, "--out", out / "vit.pt2", "--force"],
    "predict": lambda out, images, run: ["predict", images / "test", "--model", run, "--out", out / "p.csv"],
    "compare": lambda out, images, run: ["compare", run, "--split=val", "--out", out / "report"],
    "data": lambda out, images, run: ["data", "prepare", "pocket_digits", "--root", out / "data"],
    "sample": lambda out, images, run: ["sample", "ViTs-1K", "--count=200", "--out", out / "set.jsonl"],
}  # fmt: skip


def leftovers(place: Path) -> list[str]:
    """Names of temporary files and folders below a folder; the lock of a run folder stays."""
    hidden = [path for path in place.rglob("*") if path.name.startswith(".") or path.suffix in (".tmp", ".old")]
    return [path.name for path in hidden if path.suffix != ".lock"]


@pytest.mark.parametrize(
    ("disk", "name"),
    [
        (disk, name)
        for disk in (full, read_only, taken, limited)
        for name in COMMANDS
        if disk is full or "program" not in name  # a program takes seconds to trace
    ],
)
def test_an_unwritable_destination_is_named_and_left_clean(tmp_path, images, ancestor, disk, name):
    with disk(tmp_path / "disk") as place:
        command = COMMANDS[name](place, images, ancestor)
        if disk is full:
            (place / "other").write_bytes(bytes(4096))
        result = lgx(*command)
        assert result.code in (1, 2), result.out
        assert result.sentence.startswith(f"lgx {command[0]}: "), result.err
        assert str(place) in result.sentence, result.sentence
        assert "Traceback" not in result.err
        assert leftovers(place) == []
        if disk is taken:
            assert place.read_text() == "taken"


@pytest.mark.parametrize(
    "name", ["init", "init of a file", "export", "export of a program", "predict", "compare", "sample"]
)
def test_existing_files_stay_when_the_disk_is_full(tmp_path, images, ancestor, name):
    command = COMMANDS[name](tmp_path, images, ancestor)
    assert lgx(*command).code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with no_file_larger_than(300):
        result = lgx(*command)
    assert result.code == 2
    assert "cannot write" in result.sentence
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_report_without_space_is_written_by_the_same_command(tmp_path, ancestor):
    command = ["compare", ancestor, "--split", "val", "--out", tmp_path]
    sizes = {name: (tmp_path / name).stat().st_size for name in compared(command, tmp_path)}
    for path in tmp_path.iterdir():
        path.unlink()
    with no_file_larger_than(sizes["results.csv"]):
        assert "cannot write" in lgx(*command).sentence
    assert {*compared(command, tmp_path)} == {*sizes}


def compared(command, folder):
    done = lgx(*command)
    assert done.code == 0, done.err
    return [path.name for path in folder.iterdir()]


def test_a_full_disk_ends_a_run_that_can_be_resumed(tmp_path, images):
    base = arguments("fit", "Ancestor", images, tmp_path, "--name=r", "--ckpt_path=last")
    assert lgx(*base).code == 0
    folder = tmp_path / "test" / "r" / "seed0"
    before = (folder / "checkpoints" / "last.ckpt").read_bytes()
    with no_file_larger_than(len(before) // 2):
        result = lgx(*base, "--trainer.max_epochs=2")
    assert result.code == 2
    assert f"cannot write {folder / 'checkpoints'}" in result.sentence
    assert "could not be written completely" in result.sentence
    assert (folder / "checkpoints" / "last.ckpt").read_bytes() == before
    assert leftovers(folder) == []
    assert lgx(*base, "--trainer.max_epochs=2").code == 0
    assert load_checkpoint(folder / "checkpoints" / "last.ckpt")["epoch"] == 1


def test_a_disk_that_fills_while_curves_are_written_names_the_run(tmp_path, images, capfd):
    many = ["--data.batch_size=1", "--trainer.log_every_n_steps=1"]  # points, before the first checkpoint
    base = arguments("fit", "Ancestor", images, tmp_path, "--name=r", *many)
    with no_file_larger_than(5000):  # there is room for the configuration, but not for TensorBoard's file
        result = lgx(*base)
    assert result.code == 2
    assert f"cannot write {tmp_path / 'test' / 'r' / 'seed0'}" in result.sentence
    assert "resume with --ckpt_path last" in result.sentence
    assert "Traceback" not in capfd.readouterr().err  # not from TensorBoard's thread either


def test_writing_shards_resumes_after_a_full_disk(tmp_path, monkeypatch):
    images = fake_data.numbered(40)
    whole = write_shards(images, tmp_path / "whole", "train", fake_data.TOY, shard_size=10).parent
    first = (whole / "train-000000.tar").stat().st_size
    folder = tmp_path / "toy"
    write_shards(fake_data.numbered(5, "val"), folder, "val", fake_data.TOY)
    with no_file_larger_than(first - 1), pytest.raises(UserError, match=r"write .*train-000000\.tar: File too large"):
        write_shards(images, folder, "train", fake_data.TOY, shard_size=10)
    assert [path.name for path in sorted(folder.iterdir())] == ["index.json", "val-000000.tar"]
    write_shards(images, folder, "train", fake_data.TOY, shard_size=10)
    for path in whole.glob("*.tar"):
        assert (folder / path.name).read_bytes() == path.read_bytes()


class Break(Callback):
    """Truncate a shard when the second epoch begins."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == 1:
            self.path.write_bytes(self.path.read_bytes()[:5000])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_shard_that_breaks_during_a_run_is_named(tmp_path, monkeypatch, workers):
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "tests")
    for split, count in (("train", 24), ("val", 6)):
        write_shards(fake_data.numbered(count, split), tmp_path / "toy", split, fake_data.TOY, shard_size=8)
    shard = tmp_path / "toy" / "train-000001.tar"
    whole = shard.read_bytes()
    base = arguments("fit", "Ancestor", tmp_path, tmp_path / "runs", "--name=r")
    base = [option for option in base if not option.startswith("--data")]
    base += ["--data=ShardedData", f"--data.root={tmp_path}", "--data.name=toy", "--data.in_memory=false"]
    base += ["--data.batch_size=4", "--data.img_size=16", f"--data.num_workers={workers}", "--trainer.max_epochs=3"]
    result = lgx(*base, "--trainer.callbacks+=tests.project.test_disk.Break", f"--trainer.callbacks.path={shard}")
    assert result.code == 2, result.err
    assert result.sentence.startswith(f"lgx fit: shard {shard} is truncated or corrupted")
    assert "Traceback" not in result.err
    checkpoint = tmp_path / "runs" / "test" / "r" / "seed0" / "checkpoints" / "last.ckpt"
    assert load_checkpoint(checkpoint)["epoch"] == 0
    shard.write_bytes(whole)
    assert lgx(*base, "--ckpt_path=last").code == 0


def test_a_message_names_the_file_and_not_its_temporary_file(tmp_path):
    with no_file_larger_than(10), pytest.raises(UserError, match=r"cannot write .*folder/a\.txt") as caught:
        with atomic_path(tmp_path / "folder") as outer, atomic_path(outer / "a.txt") as inner:
            inner.write_text("x" * 100)
    assert ".tmp" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_libraries_that_cannot_write_ask_for_space():
    with pytest.raises(OSError, match="is the disk full"), write_errors():
        raise RuntimeError("[enforce fail at inline_container.cc:671] .\nmore")


@pytest.mark.parametrize("inodes", [2, 7, 11])
def test_a_disk_without_inodes_is_named_whatever_is_written_next(tmp_path, images, inodes):
    with mounted(tmp_path / "disk", "-o", f"nr_inodes={inodes}") as disk:
        result = lgx(*arguments("fit", "Ancestor", images, disk, "--name=r"))
        assert result.code in (1, 2), result.err
        assert f"{disk}/test/r" in result.sentence
        assert "No space left on device" in result.sentence
        assert "tried to log" not in result.err
