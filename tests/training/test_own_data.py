"""A data module of one's own, admitted by ``LGX_ALLOW_IMPORTS``: what it lacks is said in one sentence."""

from tests.support.command_line import python
from tests.support.paths import ROOT

MODULE = """
import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader, TensorDataset

from data_modules import TaskDataModule
from lgx.core.task import Task


def loader():
    return DataLoader(TensorDataset(torch.zeros(8, 3, 16, 16), torch.zeros(8).long()), 4)


class Plain(LightningDataModule):
    def train_dataloader(self):
        return loader()


class NoTask(TaskDataModule):
    def train_dataloader(self):
        return loader()


class OtherTask(NoTask):
    task = {"name": "mine"}


class NoBatchSize(NoTask):
    task = Task("mine", 3)
"""

GIVE = (
    "derive it from TaskDataModule (data_modules), and give it task (an lgx.core.task.Task), train_dataloader, "
    "val_dataloader, test_dataloader, batch_size and num_workers"
)


SENTENCES = {
    "Plain": f"own_sets.Plain is not a subclass of TaskDataModule; {GIVE}",
    "NoTask": "own_sets.NoTask lacks task, which every TaskDataModule defines",
    "OtherTask": "task of OtherTask is {'name': 'mine'}, expected an lgx.core.task.Task",
    "NoBatchSize": "batch_size of NoBatchSize is None, expected a whole number of at least 1",
}

RUN = """
from tests.support.command_line import lgx

for name in {names}:
    model = ["--model=Ancestor", "--model.arch=depth=1,embed_dim=16,num_heads=2,patch_size=4,img_size=16"]
    options = ["--model.optimizer=torch.optim.AdamW", "--trainer.accelerator=cpu", f"--data=own_sets.{{name}}"]
    done = lgx("fit", *model, *options)
    print(done.code, done.sentence)
"""


def test_what_a_data_module_lacks_is_named(tmp_path):
    (tmp_path / "own_sets.py").write_text(MODULE)
    # Another process, because every class that is once defined is offered from then on.
    env = {"LGX_ALLOW_IMPORTS": "own_sets", "PYTHONPATH": f"{ROOT}:{tmp_path}", "LGX_CACHE": str(tmp_path / "cache")}
    done = python("-c", RUN.format(names=list(SENTENCES)), cwd=tmp_path, **env)
    assert done.stdout.splitlines() == [f"2 lgx fit: data: {sentence}" for sentence in SENTENCES.values()], done.stderr
