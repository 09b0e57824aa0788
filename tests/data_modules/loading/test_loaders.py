"""Loader processes that stall, or for whose batches there is no shared memory, end a run with one sentence."""

import subprocess
import sys
import time

import pytest

from data_modules.images.examples import ImageFiles
from tests.support.command_line import arguments


@pytest.mark.slow
def test_a_full_shared_memory_ends_the_run_at_once(images, tmp_path):
    # Without `shared` the run hangs.
    options = ["--data.num_workers=2", "--data.img_size=64", "--model.arch=6-Tiny,img_size=64,patch_size=32"]
    command = arguments("fit", "Ancestor", images, tmp_path / "runs", "--name=r", *options)
    started = time.perf_counter()
    inside = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" "$@"'
    ended = subprocess.run(
        ["unshare", "-m", "bash", "-c", inside, sys.executable, "-m", "lgx", *command],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if "mount:" in ended.stderr or "unshare:" in ended.stderr:
        pytest.skip("mounting a file system needs root")
    assert time.perf_counter() - started < 55
    assert ended.returncode == 1, ended.stderr
    sentence = ended.stderr.strip().splitlines()[-1]  # older versions of torch let the system kill the process
    assert "lgx fit: " in sentence
    assert "the shared memory (/dev/shm)" in sentence
    assert "lower data.num_workers or data.batch_size" in sentence


@pytest.mark.slow
@pytest.mark.parametrize("wait", [False, True])
def test_a_stalled_loader_process_ends_the_run(fit, monkeypatch, wait):
    read = ImageFiles.__getitem__

    def stall(self, index):
        time.sleep(1.5 if wait else 600)
        return read(self, index)

    monkeypatch.setattr(ImageFiles, "__getitem__", stall)
    started = time.perf_counter()
    if wait:  # 0 waits as long as it takes
        assert fit("Ancestor", "--data.num_workers=1", "--data.worker_timeout=0", "--data.batch_size=1",
                   "--data.limit_train=1", "--trainer.limit_val_batches=0", "--data.cache_gib=0").code == 0  # fmt: skip
        return
    result = fit("Ancestor", "--data.num_workers=1", "--data.worker_timeout=2", "--data.cache_gib=0")
    assert (result.code, "Traceback" in result.err) == (1, False)
    assert result.sentence.startswith("lgx fit: the data loading processes gave no batch")
    assert "data.worker_timeout" in result.sentence
    assert time.perf_counter() - started < 30
