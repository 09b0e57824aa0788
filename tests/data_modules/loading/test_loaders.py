"""Loader processes that stall, or for whose batches there is no shared memory, end a run with one sentence."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from data_modules import ADE20K, CIFAR10, CoLA, MultiTask
from data_modules.images.examples import ImageFiles
from data_modules.loading.loaders import check_shared_memory, example_bytes
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.command_line import arguments
from tests.support.disks import mounted


@pytest.fixture
def small_memory(tmp_path, monkeypatch):
    """Shared memory of one MiB in place of the machine's."""
    with mounted(tmp_path / "shm", "-o", "size=1m") as disk:
        monkeypatch.setattr("data_modules.loading.loaders._SHARED", disk)
        yield disk


def test_the_bytes_of_an_example_are_those_of_its_tensors():
    assert example_bytes(Task("a", 10, in_chans=3, img_size=224)) == 4 * 3 * 224 * 224 + 8
    assert example_bytes(Task("a", 10, "segmentation", in_chans=1, img_size=8)) == 4 * 64 + 8 * 64
    assert example_bytes(Task("a", 2, "text", max_len=128)) == 24 * 128 + 8


def test_batches_larger_than_the_shared_memory_are_refused_before_a_process_starts(fit, small_memory):
    result = fit("Ancestor", "--data.num_workers=2", "--data.img_size=256", "--model.arch=6-Tiny,img_size=256")
    assert result.code == 2
    for words in ("data.num_workers: 2 loader processes hold 2 batches of 12.0 MiB each", "1.0 MiB", "--shm-size"):
        assert words in result.sentence
    assert "data.batch_size" in result.sentence


class Sized:
    """Examples of which only the number is read."""

    labels = lengths = np.zeros(1000, np.int64)

    def __len__(self) -> int:
        return len(self.labels)


def test_every_loader_is_checked(small_memory):
    for module in (CIFAR10(root="/nowhere", num_workers=2), MultiTask(("cifar10",), "/nowhere", num_workers=2)):
        module.members()[0]._splits["train"] = Sized()
        with pytest.raises(UserError, match=r"^data\.num_workers: 2 loader processes"):
            module.train_dataloader()
    texts = CoLA(root="/nowhere", num_workers=2)
    texts._splits["train"] = Sized()
    texts.train_dataloader()  # texts need little
    masks = ADE20K(root="/nowhere", num_workers=2, img_size=64, batch_size=16)
    masks._splits["train"] = Sized()
    with pytest.raises(UserError, match=r"2 batches of 1\.2 MiB"):
        masks.train_dataloader()


def test_several_training_processes_share_the_memory(small_memory):
    check_shared_memory(1, 2**19)
    with pytest.raises(UserError, match=r"has 0\.5 MiB"):
        check_shared_memory(1, 2**19, processes=2)


def test_systems_without_that_folder_are_not_checked(monkeypatch):
    monkeypatch.setattr("data_modules.loading.loaders._SHARED", Path("/nowhere"))
    check_shared_memory(64, 2**60)


@pytest.mark.slow
def test_a_full_shared_memory_ends_the_run_at_once(images, tmp_path):
    # The check is switched off, as if other programs filled the memory after it. Without `shared` the run hangs.
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import sys\nfrom pathlib import Path\nimport data_modules.loading.loaders as loaders\n"
        "loaders._SHARED = Path('/nowhere')\nfrom lgx.cli import main\nmain(sys.argv[1:])\n"
    )
    options = ["--data.num_workers=2", "--data.img_size=64", "--model.arch=6-Tiny,img_size=64,patch_size=32"]
    command = arguments("fit", "Ancestor", images, tmp_path / "runs", "--name=r", *options)
    started = time.perf_counter()
    inside = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" "$@"'
    ended = subprocess.run(
        ["unshare", "-m", "bash", "-c", inside, sys.executable, probe, *command],
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
