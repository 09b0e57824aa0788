"""Damaged and hostile files: every reader returns a valid result or one sentence that names the file.

Real files are made, their bytes or the values in them are changed, and the real readers and commands read them.
``LGX_FUZZ=1000`` tries 1000 changes of each file; the changes are the same in every run.
"""

import contextlib
import os
import resource
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lgx.errors import UserError
from tests.support.command_line import arguments, lgx
from tests.support.fuzzed import JSON, TARGETS, VALUES

CASES = int(os.environ.get("LGX_FUZZ", "15"))
MAX_SECONDS = 20  # seconds for one damaged file of a few kilobytes
MAX_KILOBYTES = 2**20  # kilobytes that all of them together may add to the peak memory of the process

pytestmark = pytest.mark.timeout(180 + CASES)

SIZES = [struct.pack(form, value) for form, value in (
    ("<I", 0), ("<I", 2**31 - 1), ("<I", 2**32 - 1), (">I", 2**31), ("<Q", 2**40), ("<Q", 2**63), ("<Q", 2**64 - 1),
)]  # fmt: skip
WORDS = [
    b"\0", b"\xff\xfe", b"\xc3(", b"-1", b"9" * 5000, b"1e999", b"NaN", b"null", b"[" * 3000, b"{" * 3000, b"\t\n\r",
    b"../../etc/passwd", b"\x1b[2J", b"!!python/object/apply:os.system ['true']", b"\\ud800", b"x" * 70_000,
    b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"PK\x03\x04", b"\x80\x02",
    b"P6 99999 99999 255\n",
]  # fmt: skip
DROPPED = object()
ODD = [
    DROPPED, None, True, False, -1, 0, 1, 2, 7, 10**6, 10**9, 2**63, 10**400, 0.5, -1.5, 1e308, float("nan"),
    float("inf"), "", "x", "../../etc/passwd", "\0", "\ud800", "\x1b[2J", "9" * 5000, [], {}, [[]], [1, 2], [10**9] * 3,
    ["a"], {"a": 1}, {"": {}}, torch.tensor(1.0), torch.zeros(0), torch.zeros(3, dtype=torch.int8),
    torch.ones(2, 2).to_sparse(), torch.ones(1).expand(10**7), torch.empty(4, device="meta"),
    torch.full((16,), float("nan")),
]  # fmt: skip


@st.composite
def damaged(draw: Any, whole: bytes) -> bytes:
    """The content after one to four changes of some bytes."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(1, 64))
        match draw(st.sampled_from(["bit", "bytes", "cut", "drop", "size", "word", "repeat", "move"])):
            case "bit" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "bytes":
                data[at : at + length] = draw(st.binary(max_size=16))
            case "cut":
                del data[at:]
            case "drop":
                del data[at : at + length]
            case "size":
                size = draw(st.sampled_from(SIZES))
                data[at : at + len(size)] = size
            case "word":
                data[at : at + draw(st.sampled_from([0, 4]))] = draw(st.sampled_from(WORDS))
            case "repeat":
                data[at:at] = data[at : at + length] * draw(st.integers(1, 50))
            case "move":
                data += data[:at]
                del data[:at]
    return bytes(data)


def places(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys that lead to every value of nested mappings and lists."""
    yield place
    if isinstance(content, dict | list | tuple):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from places(content[key], (*place, key))


def replaced(content: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at one place; ``DROPPED`` removes it."""
    if not place:
        return {} if value is DROPPED else value
    copy = dict(content) if isinstance(content, dict) else list(content)
    key, *rest = place
    if not rest and value is DROPPED:
        del copy[key]
    else:
        copy[key] = replaced(copy[key], tuple(rest), value)
    return copy


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_KILOBYTES


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    files: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in files:
            torch.manual_seed(0)
            files[name] = TARGETS[name].make(tmp_path_factory.mktemp("fuzz"))
        return files[name]

    return make


def read_or_refuse(name: str, file: Path) -> None:
    """Read a file: it succeeds, or one sentence says what is wrong with the file."""
    started = time.perf_counter()
    try:
        TARGETS[name].read(file)
    except UserError as error:
        sentence = str(error)
        assert file.name in sentence or any(str(folder) in sentence for folder in file.parents[:3]), sentence
        assert "\n" not in sentence, sentence
        assert len(sentence) < 1000, sentence
    assert time.perf_counter() - started < MAX_SECONDS


def examples(cases: int) -> settings:
    """Settings for this number of examples, without shrinking: an example is small already."""
    return settings(max_examples=cases, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


@contextlib.contextmanager
def restored(file: Path) -> Iterator[bytes]:
    """The content of a file, which it has again at the end of the block."""
    whole = file.read_bytes()
    try:
        yield whole
    finally:
        file.write_bytes(whole)


def change_bytes(name: str, file: Path, data: st.DataObject) -> None:
    with restored(file) as whole:
        file.write_bytes(data.draw(damaged(whole)))
        read_or_refuse(name, file)


def change_values(name: str, file: Path, data: st.DataObject) -> None:
    load, save = VALUES[name]
    content = load(file)
    place, value = data.draw(st.sampled_from(list(places(content)))), data.draw(st.sampled_from(ODD))
    with restored(file):
        try:
            save(file, replaced(content, place, value))
        except (ValueError, TypeError, OverflowError, UnicodeError, AttributeError, yaml.YAMLError):
            return  # such a file cannot be written
        read_or_refuse(name, file)


CHANGES = [(change_bytes, name) for name in TARGETS] + [(change_values, name) for name in VALUES]


@pytest.mark.parametrize(("change", "name"), CHANGES)
@given(data=st.data())
@examples(CASES)
def test_a_changed_file_is_read_or_refused(change, name, made, data):
    change(name, made(name), data)


INVALID_JSON = [
    b"", b'{"a": ', b'{"a": "caf\xe9"}', b"[" * 10**5, b'{"a": ' + b"9" * 5000 + b"}", b"[1, 2]", b'"text"', b"null",
]  # fmt: skip


@pytest.mark.parametrize("name", [name for name, kind in VALUES.items() if kind is JSON])
def test_invalid_json_is_named(name, made):
    file = made(name)
    with restored(file):
        for content in INVALID_JSON:
            file.write_bytes(content)
            with pytest.raises(UserError):
                TARGETS[name].read(file)
            read_or_refuse(name, file)


def run_or_refuse(*command: object) -> None:
    """Run a command line: it succeeds, or one sentence says what is wrong."""
    started = time.perf_counter()
    result = lgx(*command)
    assert result.code in (0, 1, 2)
    if result.code:
        assert result.sentence.startswith(f"lgx {command[0]}: "), result.err
        assert len(result.sentence) < 2500
    assert time.perf_counter() - started < MAX_SECONDS


UNLIMITED = {"devices", "num_nodes", "strategy", "num_workers"}  # options that may take long without being wrong


@given(data=st.data())
@examples(max(5, CASES // 4))
def test_changed_configurations_run_or_are_refused(ancestor, tmp_path, data):
    whole, file = (ancestor / "config.yaml").read_bytes(), tmp_path / "others.yaml"
    if data.draw(st.booleans()):
        file.write_bytes(data.draw(damaged(whole)))
    else:
        content = yaml.safe_load(whole)
        known = [place for place in places(content) if not UNLIMITED & set(place)]
        try:
            file.write_text(
                yaml.safe_dump(replaced(content, data.draw(st.sampled_from(known)), data.draw(st.sampled_from(ODD))))
            )
        except (UnicodeError, yaml.YAMLError):
            return
    run_or_refuse("fit", "--config", file, f"--runs_dir={tmp_path}", "--trainer.fast_dev_run=true")


@given(data=st.data())
@examples(max(5, CASES // 4))
def test_changed_checkpoints_resume_or_are_refused(ancestor, images, tmp_path, data):
    file, checkpoint = tmp_path / "others.ckpt", torch.load(ancestor / "checkpoints/last.ckpt", weights_only=True)
    top = data.draw(st.sampled_from(sorted(checkpoint)))
    below = data.draw(st.sampled_from(list(places(checkpoint[top]))))
    torch.save(replaced(checkpoint, (top, *below), data.draw(st.sampled_from(ODD))), file)
    command, more = data.draw(
        st.sampled_from([("fit", "--trainer.max_epochs=9"), ("test", "--trainer.fast_dev_run=1")])
    )
    place = [f"--ckpt_path={file}", "--trainer.limit_train_batches=1", "--overwrite=true"]
    run_or_refuse(*arguments(command, "Ancestor", images, tmp_path / "runs", *place, more))
