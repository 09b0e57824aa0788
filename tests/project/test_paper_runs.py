"""Every configuration at the papers' scale does two steps on small files; what it starts from is random."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import timm
import torch

from data_modules.suites.decathlon import DECATHLON_TASKS
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.core.task import Task
from tests.support import fake_data, fake_decathlon, fake_text
from tests.support.command_line import lgx, ok
from tests.support.paths import EXPERIMENTS

SMALL_TASKS = [task for task in DECATHLON_TASKS if task != "imagenet"]
Place = Callable[[Path, pytest.MonkeyPatch], list[str]]


def imagenet(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for k, split in enumerate(("train", "val")):  # as many classes as the ancestors have
        fake_data.class_tree(root / "imagenet" / split, [f"n{c:08d}" for c in range(1000)], 2 - k, k, "JPEG")
    return []


def of_set(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    fake_data.FORMATS[name](root, monkeypatch)
    return [f"--data={ {'cifar10': 'CIFAR10', 'fashion_mnist': 'FashionMNIST', 'food101': 'Food101'}[name] }"]


def decathlon(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for task in SMALL_TASKS:
        fake_decathlon.write_task(root / "decathlon", task)
    return []


def texts(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    fake_text.write_vocabulary(fake_text.write_sets(root) / "gpt2_vocab")
    return ["--data.source=files", "--data.tokenizer=null", f"--data.vocab_size={fake_text.SIZE}", "--data.max_len=32",
            f"--model.arch=12-GPT2,vocab_size={fake_text.SIZE},max_len=32"]  # fmt: skip


@pytest.fixture(autouse=True)
def few_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_decathlon.expect_tiny_files(monkeypatch)


RANDOM = ["--model.initializer=RandomStart"]
ALONE = ["--model.start=null"]
CONFIGS: dict[str, tuple[Place, list[str]]] = {
    "sws/paper/learngene": (imagenet, []),
    "sws/paper/trained": (imagenet, []),
    "sws/paper/descendant": (imagenet, RANDOM),
    "sws/paper/downstream": (partial(of_set, "food101"), RANDOM),
    "lsamd/paper/selection": (partial(of_set, "cifar10"), []),
    "lsamd/paper/pretrained": (imagenet, []),
    "lsamd/paper/descendant": (partial(of_set, "cifar10"), RANDOM),
    "tal/table1/tal": (imagenet, []),
    "tal/table1/logah": (imagenet, []),
    "tal/table1/ghn3": (imagenet, []),
    "tal/table1/descendant": (imagenet, RANDOM),
    "tal/table2/tal": (decathlon, ALONE),
    "tal/table2/logah": (decathlon, []),
    "tal/table2/ghn3": (decathlon, []),
    "tal/table3/descendant": (decathlon, RANDOM),
    "tal/table5/descendant": (partial(of_set, "fashion_mnist"), RANDOM),
    "tal/table7/tal_st": (decathlon, ALONE),
    "arena/paper/descendant": (decathlon, RANDOM),
    "arena/paper/logits": (decathlon, ["--model.ancestor=null"]),
    "arena/paper/teacher": (decathlon, RANDOM),
    "arena/paper/sws": (imagenet, []),
    "arena/paper/distilled": (imagenet, []),
    "text/paper/tal": (texts, []),
    "text/paper/logah": (texts, []),
}
QUICK = {"tal/table3/descendant"}


def test_every_configuration_of_the_papers_scale_is_listed():
    found = {str(path.relative_to(EXPERIMENTS).with_suffix("")) for path in EXPERIMENTS.glob("*/*/*.yaml")}
    assert {name for name in found if "/paper/" in name or "/table" in name} == CONFIGS.keys()


def embeddings(file: Path) -> Path:
    """Random vectors instead of the features of an ancestor."""
    names = [*(f"decathlon_{task}" for task in SMALL_TASKS), "mrpc", "cola", "rte", "imdb"]
    tasks = {name: Task(name, 2).to_dict() for name in names}
    vectors = {name: torch.randn(768) for name in names}
    TaskEmbeddings(vectors, "stand-in", dict.fromkeys(names, 1), tasks).save(file)
    return file


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CONFIGS])
@pytest.mark.timeout(900)
def test_a_configuration_of_the_papers_scale_does_two_steps(name, tmp_path, monkeypatch):
    make, options = CONFIGS[name]
    create = timm.create_model  # random weights stand for timm's
    monkeypatch.setattr(timm, "create_model", lambda *args, **kwargs: create(*args, **{**kwargs, "pretrained": False}))
    config = EXPERIMENTS / f"{name}.yaml"
    if "task_embeddings:" in config.read_text():
        options = [*options, f"--model.task_embeddings={embeddings(tmp_path / 'tasks.safetensors')}"]
    command = ["fit", "--config", config, *make(tmp_path, monkeypatch), *options]
    command += [f"--data.root={tmp_path}", "--data.batch_size=2", "--data.num_workers=0", f"--runs_dir={tmp_path}/runs"]
    command += ["--trainer.max_steps=2", "--trainer.limit_val_batches=0", "--test_start=false", "--test_end=false"]
    command += ["--trainer.accelerator=cpu", "--trainer.precision=32-true", "--trainer.enable_progress_bar=false"]
    ok(lgx(*command, "--name=r"))
    (checkpoint,) = (tmp_path / "runs").rglob("last.ckpt")
    assert torch.load(checkpoint, weights_only=True, mmap=True)["global_step"] == 2
