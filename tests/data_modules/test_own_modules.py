"""A user's own data module: the examples of docs/data.md run, and each broken promise is one sentence."""

import csv
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from data_modules import TaskDataModule
from data_modules.loading.loaders import eval_loader, train_loader
from data_modules.module_checks import check_module
from lgx.core.batch import Batch
from lgx.core.rows import read_rows
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.command_line import ARCH, Result, lgx, python
from tests.support.images import write_images
from tests.support.paths import ROOT

DOCS = (ROOT / "docs/data.md").read_text()
SECTION = DOCS[DOCS.index("## Your own data module") :]
EXAMPLE, SHORT = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
MODEL = [
    "--model=Finetune", f"--model.arch={ARCH}", "--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=0.003",
    "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", "--experiment=test", "--trainer.max_epochs=2",
]  # fmt: skip


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: images with their table, and ``my_data.py`` with both classes of the page."""
    images = write_images(tmp_path / "my_photos", {"train": 48, "val": 9, "test": 12})
    with (images / "photos.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "label", "split"])
        for path in sorted(images.rglob("*.png")):
            split, label, _ = path.relative_to(images).parts
            table.writerow([path.relative_to(images), label, split])
    (tmp_path / "my_data.py").write_text(f"{EXAMPLE}\n{SHORT}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_data", None)


def words(command: str, name: str, *options: str, data: str = "CsvImages") -> list[str]:
    given = [f"--data=my_data.{data}", "--data.table=my_photos/photos.csv", "--data.img_size=16"]
    return [command, *MODEL, *given, "--data.batch_size=16", f"--name={name}", *options]


def run(command: str, name: str, *options: str, data: str = "CsvImages") -> Result:
    return lgx(*words(command, name, *options, data=data))


def environment() -> dict[str, str]:
    """For another process in the working folder."""
    return {"PYTHONPATH": os.pathsep.join([".", str(ROOT)]), "OMP_NUM_THREADS": "1"}


def weights(name: str) -> dict[str, torch.Tensor]:
    path = f"runs/test/{name}/seed0/checkpoints/last.ckpt"
    state: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["state_dict"]
    return state


@pytest.mark.slow
def test_the_example_trains_tests_and_resumes_bit_for_bit(photos: Path) -> None:
    whole = run("fit", "whole", "--test_end")
    assert whole.code == 0, whole.err
    assert {row.split for row in read_rows("runs/test/whole/seed0/results.csv")} == {"train", "val", "test"}
    kill = ["--trainer.callbacks+=tests.support.probes.KillAt", "--trainer.callbacks.step=4"]  # in the second epoch
    killed = python("-m", "lgx", *words("fit", "parts", "--save_every=1", *kill), **environment())
    assert killed.returncode == -9, killed.stderr
    resumed = run("fit", "parts", "--ckpt_path=last", "--save_every=1", "--data.num_workers=1")
    assert resumed.code == 0, resumed.err
    found = weights("parts")
    for name, tensor in weights("whole").items():
        assert torch.equal(tensor, found[name]), name
    tested = run("test", "whole", "--ckpt_path=best")
    assert tested.code == 0, tested.err


def test_the_shorter_example_has_the_options_of_every_image_set(photos: Path, monkeypatch: Any) -> None:
    options = ["--data.augment=crop_flip", "--data.limit_train=32", "--data.transforms=[RandomInvert]", "--test_end"]
    result = run("fit", "set", *options, data="CsvImageSet")
    assert result.code == 0, result.err
    assert "32 training images are decoded once" in result.out
    predicted = run("predict", "set", "--ckpt_path=last", "--data.limit_train=32", data="CsvImageSet")
    assert predicted.code == 0, predicted.err
    assert len(Path("runs/test/set/seed0/predictions.csv").read_text().splitlines()) == 13
    monkeypatch.setattr(sys.modules["my_data"].CsvImageSet, "predict_indices", property(lambda self: [0]))
    refused = run("predict", "set", "--ckpt_path=last", "--data.limit_train=32", data="CsvImageSet")
    assert refused.code == 2
    assert "predict_indices of CsvImageSet has 1 entries, but predict_dataloader gave 12 examples" in refused.sentence


class Mine(TaskDataModule):
    """A data module that keeps its promises; the tests break one at a time."""

    batch_size, num_workers = 2, 0
    known = Task("mine", 3, img_size=4, num_train=6)
    inputs, targets = torch.zeros(3, 4, 4), 1

    @property
    def task(self) -> Task:
        return self.known

    def train_dataloader(self) -> Any:
        return train_loader(self, [(self.inputs, self.targets)] * 6, 0, self.collate)

    def val_dataloader(self) -> Any:
        return eval_loader(self, [(self.inputs, self.targets)] * 3, self.collate)

    def collate(self, examples: Any) -> Batch:
        inputs, targets = zip(*[(self.inputs, self.targets)] * len(examples), strict=True)
        return Batch(torch.stack(inputs), torch.as_tensor(targets), "mine")


def test_a_custom_data_module_needs_a_task_and_a_loader() -> None:
    module = Mine()
    assert (list(module.all_tasks), list(module.members())) == (["mine"], [module])
    assert (module.num_classes, module.nominal_train_size(), module.count_train()) == (3, None, 6)
    assert module.epoch_batches([6]) == module.train_dataloader().epoch_length
    with pytest.raises(UserError, match=r"Mine has 6 training examples and cannot be planned with 5; leave out"):
        module.epoch_batches([5])
    with pytest.raises(UserError, match="Mine has no predict_indices"):
        _ = module.predict_indices


def changed(name: str, value: Any) -> Any:
    return type("Mine", (Mine,), {name: value, "__module__": "mine"})()


def batches(batch: Any) -> Callable[[Any], Any]:
    """A ``train_dataloader`` that gives one batch."""
    return lambda self: [] if batch is None else [batch]


GOOD = Batch(torch.zeros(2, 3, 4, 4), torch.tensor([0, 2]), "mine")
BROKEN: list[tuple[str, Any, str]] = [
    ("batch_size", "8", "batch_size of Mine is '8', expected a whole number of at least 1"),
    ("num_workers", None, "num_workers of Mine is None, expected a whole number of at least 0"),
    ("known", replace(Mine.known, std=(1.0,)), "task of Mine: mean and std have 3 and 1 values, expected one for each"),
    ("known", replace(Mine.known, class_names=("a",)), "class_names has 1 names, expected one for each of 3 classes"),
    ("known", replace(Mine.known, kind="text"), "max_len and vocab_size are 0 and 0, expected those of the texts"),
    ("known", replace(Mine.known, kind="multilabel", metric="map"), "are int64, (2), expected int64, (2, 3)"),
    ("train_dataloader", batches(None), "train_dataloader of Mine gives a NoneType, expected lgx"),
    ("train_dataloader", batches((1, 2)), "gives a tuple, expected lgx.core.batch.Batch(inputs, targets, task)"),
    ("train_dataloader", batches(GOOD._replace(task="x")), "a batch of train_dataloader of Mine is of task 'x'"),
    ("train_dataloader", batches(GOOD._replace(inputs=torch.zeros(2, 4, 4))),
     "inputs of train_dataloader of Mine are float32, (2, 4, 4), expected normalized images, floating-"),
    ("train_dataloader", batches(GOOD._replace(inputs=GOOD.inputs.byte())), "are uint8, (2, 3, 4, 4), expected norm"),
    ("train_dataloader", batches(GOOD._replace(targets=torch.zeros(2, 3))), "float32, (2, 3), expected int64, (2)"),
    ("train_dataloader", batches(GOOD._replace(targets=torch.tensor([1, 3]))), "1 to 3, expected 0 to 2 for 3 classes"),
]  # fmt: skip


def test_a_data_module_that_keeps_its_promises_passes_and_uses_up_no_random_number() -> None:
    module = changed("train_dataloader", batches(GOOD))
    state = torch.get_rng_state()
    check_module(module, ["train", "val"])
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(("name", "value", "sentence"), BROKEN, ids=[sentence[:45] for _, _, sentence in BROKEN])
def test_each_broken_promise_is_one_sentence(name: str, value: Any, sentence: str) -> None:
    module = changed(name, value)
    if name != "train_dataloader":
        type(module).train_dataloader = batches(GOOD)
    with pytest.raises(UserError, match=re.escape(sentence)) as refused:
        check_module(module, ["train", "val"])
    assert str(refused.value).startswith("data: ")


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("return self._task", "return None", "data: task of CsvImages is None, expected an lgx.core.task.Task"),
        ("def task(self)", "def tasks(self)", "data: Expected an instantiatable class, but is abstract, got my_data"),
        ("len(names), img_size", "7, img_size", "class_names has 3 names, expected one for each of 7 classes"),
    ],
)
def test_the_command_line_says_what_is_broken_before_the_first_step(photos: Path, before, after, sentence) -> None:
    text = (photos / "my_data.py").read_text()
    assert before in text
    (photos / "my_data.py").write_text(text.replace(before, after))
    result = run("fit", "broken")
    assert result.code == 2
    assert sentence in result.sentence
    assert "Traceback" not in result.err
    assert not list(photos.glob("runs/test/broken/seed0/checkpoints/*"))
