"""Failures of the system and errors of other libraries become one sentence; other errors keep their traceback."""

import errno
import os
import re

import pytest
import torch

from lgx.errors import UserError
from lgx.host.failures import (
    blame,
    checkpoint_errors,
    describe,
    foreign_errors,
    reason_of,
    timm_errors,
)
from tests.support.command_line import lgx


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a"), "runs/a: No space left on device"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "the memory of the GPU is full"),
        (RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:80"), "another process of this run ended"),
        (MemoryError(), "the memory of the machine is full; lower data.batch_size"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried"),
            "the memory of the machine is full",
        ),
        (RuntimeError("DataLoader timed out after 60 seconds"), "the data loading processes gave no batch"),
        (RuntimeError("unable to allocate shared memory(shm) for file </torch_1>"), "the shared memory (/dev/shm) is"),
        (RuntimeError("shape mismatch"), None),
        (ValueError("Broken pipe"), None),
    ],
)
def test_only_failures_of_the_system_are_described(monkeypatch, error, words):
    def run(argv):
        raise error

    monkeypatch.setattr("lgx.cli.run_command", run)
    found = describe(error)
    if words is None:
        assert found is None
        with pytest.raises(type(error)):
            lgx("fit")
        return
    assert found.startswith(words)
    result = lgx("fit")
    assert (result.code, result.sentence) == (1, f"lgx fit: {found}")


def test_a_full_disk_is_named_behind_the_loggers_message():
    hidden = ValueError("\n you tried to log nan which is currently not supported. Try a dict or a scalar/tensor.")
    hidden.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/events.out")
    assert describe(hidden).startswith("runs/events.out: No space left on device; free some space")


def test_a_killed_worker_is_recognized_behind_other_errors():
    death = RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
    hidden, other = TypeError("unsupported callable"), TypeError("unsupported callable")
    hidden.__context__ = death
    other.__context__ = ConnectionResetError(
        errno.ECONNRESET, "Connection reset by peer"
    )  # not of a data loader worker
    hidden.__context__.__context__ = hidden  # a cycle of causes ends the search, too
    killed = "a data loading process was killed"
    assert describe(death).startswith(killed)
    assert describe(hidden).startswith(killed)
    assert describe(other) is None


@pytest.mark.parametrize(("workers", "error"), [(0, MemoryError()), (1, None)])
def test_full_memory_is_not_blamed_on_an_image(fit, monkeypatch, error, workers):
    def fill(*arguments):
        if error:
            raise error
        return torch.empty(2**60), 0  # torch's own error

    reader = (
        "data_modules.images.examples.ImageReader.__call__"
        if error
        else "data_modules.images.examples.ImageFiles.__getitem__"
    )
    monkeypatch.setattr(reader, fill)
    result = fit("Ancestor", f"--data.num_workers={workers}")
    assert (result.code, "Traceback" in result.err) == (1, False)
    assert result.sentence.startswith("lgx fit: the memory of the machine is full")


def test_a_reason_is_one_short_line():
    assert reason_of(ValueError("\n first \nsecond")) == "first"
    assert reason_of(KeyError()) == "KeyError"
    assert reason_of(OSError("POST https://me:secret@host/a failed")) == "POST https://host/a failed"
    assert len(reason_of(RuntimeError("x" * 1000))) == 200


@pytest.mark.parametrize(
    ("translation", "error", "sentence"),
    [
        (foreign_errors("a", "is wrong", "mend it"), OSError("why"), "a: is wrong (why); mend it"),
        (checkpoint_errors("f"), ValueError("it is compressed"), "f: not an intact checkpoint .* (it is compressed)"),
        (
            checkpoint_errors("f"),
            RuntimeError("set weights_only=False"),
            "plain types (RuntimeError); it was not loaded",
        ),
    ],
)
def test_errors_of_a_library_become_a_sentence(translation, error, sentence):
    pattern = re.escape(sentence).replace(r"\.\*", ".*")
    with pytest.raises(UserError, match=pattern) as caught, translation:
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("translation", "error"),
    [
        (blame("a value"), MemoryError()),
        (checkpoint_errors("a.ckpt"), MemoryError()),
        (foreign_errors("a", "b", "c"), MemoryError()),
        (timm_errors("vit"), MemoryError()),
        (foreign_errors("a", "is wrong", "mend it"), UserError("mine")),
        (foreign_errors("a", "is wrong", "mend it", (ValueError, TypeError)), KeyError("x")),
    ],
)
def test_full_memory_our_own_errors_and_other_kinds_pass(translation, error):
    with pytest.raises(type(error)) as caught, translation:
        raise error
    assert caught.value is error
