"""Damaged files of every kind: a reader returns a result, or one sentence that names the file.

``LGX_FUZZ=500`` damages each file 500 times; the damage is the same in every run.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from data_modules.shards.module import ShardedData
from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.core.rows import Row, read_rows, write_rows
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods.initializers import initializer_for
from lgx.runs.sweeps import load_sweep
from tests.support import fake_data

CASES = int(os.environ.get("LGX_FUZZ", "30"))
TINY = ViTArchitecture(2, 16, 2, patch_size=4, img_size=8, num_classes=3)
TASK = Task("shapes", 3, num_train=5, img_size=8, class_names=("a", "b", "c")).to_dict()

pytestmark = pytest.mark.timeout(180 + CASES)


def make_learngene(folder: Path) -> Path:
    Learngene("ancestor", TINY, TINY.build().state_dict(), task=TASK).save(folder / "a.learngene.safetensors")
    return folder / "a.learngene.safetensors"


def make_checkpoint(folder: Path) -> Path:
    about = {"method": "ancestor", "architecture": TINY.to_dict(), "task": TASK, "epochs": 1}
    state = {f"network.{name}": tensor for name, tensor in TINY.build().state_dict().items()}
    torch.save({"state_dict": state, "lgx": about, "pytorch-lightning_version": "2.6"}, folder / "a.ckpt")
    return folder / "a.ckpt"


def make_sweep(folder: Path) -> Path:
    (folder / "run.yaml").write_text("model: Ancestor\n")
    matrix = "{name: 'sws-{depth}', config: run.yaml, matrix: {depth: [3, 6]}, options: {model.arch: '{depth}-Small'}}"
    (folder / "sweep.yaml").write_text(f"experiment: demo\nseeds: [0, 1]\nruns:\n- {matrix}\n")
    return folder / "sweep.yaml"


def make_results(folder: Path) -> Path:
    rows = [Row("sws", "6-Small", "shapes", "test", 1, "acc", 0.5, seed, 12, "runs/a") for seed in range(3)]
    write_rows(folder / "results.csv", rows)
    return folder / "results.csv"


def make_shards(folder: Path) -> Path:
    fake_data.toy_shards(folder / "toy")
    return folder / "toy" / "train-000000.tar"


def read_shards(file: Path) -> None:
    for in_memory in (True, False):
        module = ShardedData(name="toy", root=str(file.parents[1]), in_memory=in_memory, batch_size=4)
        module.setup("fit")
        next(iter(module.train_dataloader()))


KINDS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any]]] = {
    "learngene": (make_learngene, lambda file: initialize(TINY, initializer_for(str(file)), head="new")),
    "checkpoint": (make_checkpoint, lambda file: load_pretrained(str(file))),
    "configuration": (make_sweep, load_sweep),
    "results": (make_results, read_rows),
    "shard": (make_shards, read_shards),
    "index of shards": (lambda folder: make_shards(folder).parent / "index.json", read_shards),
}
"""Kind -> writes a file into a folder, and reads it."""


def damaged(whole: bytes, rng: Random) -> bytes:
    """The content with a few bits flipped, cut off, or with a part missing."""
    data, at = bytearray(whole), rng.randrange(len(whole))
    match rng.choice(["flip", "cut", "drop"]):
        case "flip":
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case "cut":
            del data[at:]
        case "drop":
            del data[at : at + rng.randint(1, 64)]
    return bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused_in_one_sentence(tmp_path, kind):
    make, read = KINDS[kind]
    file, rng = make(tmp_path), Random(kind)
    whole, sentences = file.read_bytes(), set[str]()
    for _ in range(CASES):
        file.write_bytes(damaged(whole, rng))
        try:
            read(file)
        except UserError as error:
            sentences.add(str(error))
    for sentence in sentences:
        assert file.name in sentence or str(file.parent) in sentence, sentence
        assert "\n" not in sentence
