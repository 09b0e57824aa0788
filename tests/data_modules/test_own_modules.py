"""A user's own data module: the examples of docs/data.md run."""

import csv
import importlib
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lgx.core.rows import read_rows
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
    options = ["--data.augment=crop_flip", "--data.limit_train=32", "--test_end"]
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


def test_what_a_custom_data_module_does_not_define_has_a_default(photos: Path) -> None:
    module = importlib.import_module("my_data").CsvImages("my_photos/photos.csv", img_size=16, batch_size=16)
    module._task = replace(module.task, num_train=48)
    assert (list(module.all_tasks), list(module.members())) == (["photos"], [module])
    assert (module.num_classes, module.nominal_train_size(), module.count_train()) == (3, None, 48)
    assert module.epoch_batches([48]) == module.train_dataloader().epoch_length == 3
    with pytest.raises(UserError, match=r"CsvImages has 48 training examples and cannot be planned with 5; leave out"):
        module.epoch_batches([5])
    with pytest.raises(UserError, match="CsvImages has no predict_indices"):
        _ = module.predict_indices
