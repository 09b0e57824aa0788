"""An ancestor, a super-ancestor, and command lines for selections."""

import pytest
import torch
from torch import nn

from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.artifacts.learngene import Learngene
from lgx.core.task import Task
from lgx.methods.lsamd.super_ancestor import SuperAncestor
from tests.support.command_line import ACCELERATOR
from tests.support.images import write_images

ARCH = "depth=4,embed_dim=16,num_heads=2,patch_size=8,img_size=32"
SETS = ("one", "two", "three")


@pytest.fixture(scope="session")
def ancestor(tmp_path_factory):
    """File of an untrained ancestor, beside three folders of images."""
    torch.manual_seed(3)
    architecture: ViTArchitecture = parse_architecture(ARCH, num_classes=10)
    path = tmp_path_factory.mktemp("ancestor") / "a.learngene.safetensors"
    task = {"name": "x", "num_classes": 10, "mean": [0.4] * 3, "std": [0.2] * 3, "img_size": 32, "in_chans": 3}
    Learngene("ancestor", architecture, architecture.build().state_dict(), task=task).save(path)
    for number, name in enumerate(SETS):
        write_images(path.parent / name, {"train": 48 + 9 * number, "val": 40, "test": 12})
    return path


def arguments(ancestor, runs, names, *more, name="selection"):
    """The command line of a selection on folders beside the ancestor, and on sets by their names."""
    tasks = ",".join(str(ancestor.parent / each) if each in SETS else each for each in names)
    return [
        "fit", "--model", "LSAMD", f"--model.ancestor={ancestor}", f"--model.arch={ARCH}",
        "--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=1e-2",
        "--data=MultiTask", f"--data.tasks=[{tasks}]", "--data.img_size=32", "--data.batch_size=16",
        f"--data.root={ancestor.parent / 'data'}", "--data.limit_eval=40",
        f"--runs_dir={runs}", "--experiment=t", f"--name={name}", "--trainer.max_epochs=2",
        f"--trainer.accelerator={ACCELERATOR}", "--trainer.enable_progress_bar=false", *more,
    ]  # fmt: skip


def super_ancestor(routing="batch", *options):
    """Two data sets whose blocks, adapters and heads differ from one another."""
    torch.manual_seed(0)
    base = parse_architecture(ARCH, num_classes=3).build()
    net = SuperAncestor(base, [Task("a", 3), Task("b", 5)], routing, *options)
    for name, parameter in net.named_parameters():
        if name.startswith("branches."):
            nn.init.normal_(parameter, std=1.0 if "adapters" in name else 0.1)
    return net


def images(count=7):
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))
