"""An ancestor and command lines for selections."""

import pytest
import torch

from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.artifacts.learngene import Learngene

ARCH = "depth=4,embed_dim=16,num_heads=2,patch_size=8,img_size=32"


@pytest.fixture(scope="module")
def ancestor(tmp_path_factory):
    torch.manual_seed(3)
    architecture: ViTArchitecture = parse_architecture(ARCH, num_classes=10)
    path = tmp_path_factory.mktemp("ancestor") / "a.learngene.safetensors"
    task = {"name": "x", "num_classes": 10, "mean": [0.4] * 3, "std": [0.2] * 3, "img_size": 32, "in_chans": 3}
    Learngene("ancestor", architecture, architecture.build().state_dict(), task=task).save(path)
    return path


def arguments(ancestor, runs, data, *more, name="selection"):
    return [
        "fit", "--model", "LSAMD", f"--model.ancestor={ancestor}", f"--model.arch={ARCH}",
        "--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=1e-2",
        "--data=MultiTask", f"--data.tasks={data}", "--data.img_size=32", "--data.batch_size=16",
        f"--data.root={ancestor.parent / 'data'}", "--data.limit_train=96", "--data.limit_eval=40",
        f"--runs_dir={runs}", "--experiment=t", f"--name={name}", "--trainer.max_epochs=2",
        "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", *more,
    ]  # fmt: skip
