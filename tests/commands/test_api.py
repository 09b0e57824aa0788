"""``lgx.init``, ``lgx.embed_task``, ``lgx.compare`` and ``lgx.load_learngene`` give what the commands write."""

import subprocess
import sys

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from torch.testing import assert_close
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose, Resize, ToTensor

import lgx as package
from lgx.architectures import parse_architecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.core.eval_transforms import eval_transform
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.command_line import lgx, ok
from tests.support.images import CLASSES

ARCH = "depth=6,embed_dim=16,num_heads=2,patch_size=4,img_size=16"
NARROW = "depth=2,embed_dim=8,num_heads=1,patch_size=4,img_size=16"


def test_importing_lgx_imports_nothing_heavy():
    code = "import lgx, sys; assert not {'torch', 'lightning', 'timm'} & set(sys.modules); print(sorted(lgx.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "embed_task" in done.stdout
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("options", [{}, {"head": 7, "seed": 3}, {"data": "images", "method": "weight_subcloning"}])
def test_init_gives_the_model_that_the_command_writes(sws, ancestor, images, tmp_path, options):
    source, arch = sws / f"final{SUFFIX}", ARCH
    if "data" in options:
        options, source, arch = options | {"data": str(images)}, ancestor / f"final{SUFFIX}", NARROW
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    ok(lgx("init", "--source", source, "--arch", arch, "--out", tmp_path / "d", *words))
    written = timm.create_model(f"local-dir:{tmp_path / 'd'}", pretrained=True)
    model = package.init(source, arch, **options)
    assert model.training
    assert_close(model.state_dict(), written.state_dict())
    config, wanted = (timm.data.resolve_model_data_config(each) for each in (model, written))
    assert (config["mean"], config["std"], config["input_size"]) == (
        tuple(wanted["mean"]), tuple(wanted["std"]), tuple(wanted["input_size"]),
    )  # fmt: skip
    names, kept = (each.pretrained_cfg.get("label_names") for each in (model, written))
    assert names == kept == (None if "head" in options else [*CLASSES])


def test_mistakes_raise_user_errors(sws, ancestor, tmp_path):
    with pytest.raises(UserError, match="--noize: unknown option"):
        package.init(ancestor / f"final{SUFFIX}", ARCH, noize=0.1)
    with pytest.raises(UserError, match="no such file"):
        package.load_learngene(tmp_path / f"none{SUFFIX}")
    with pytest.raises(UserError, match="budget"):
        package.init(sws / f"final{SUFFIX}")


def test_embed_task_gives_the_embedding_of_the_command(images, ancestor, tmp_path):
    source, out = ancestor / f"final{SUFFIX}", tmp_path / "tasks.safetensors"
    assert lgx("embed", "--ancestor", source, "--data", images, "--out", out).code == 0
    (wanted,) = TaskEmbeddings.load(out).tensors.values()
    folder = ImageFolder(str(images / "train"), Compose([Resize((16, 16)), ToTensor()]))
    found = package.embed_task(source, DataLoader(folder, batch_size=10), "shapes", num_classes=3)
    assert found.images == {"shapes": len(folder)}
    assert torch.nn.functional.cosine_similarity(found.tensors["shapes"], wanted, dim=0) > 0.99
    found.save(tmp_path / "own.safetensors")
    assert TaskEmbeddings.load(tmp_path / "own.safetensors").tasks["shapes"]["num_classes"] == 3


def test_embed_task_reads_images_of_any_channels(tmp_path):
    gray, architecture = tmp_path / f"gray{SUFFIX}", parse_architecture(f"{ARCH},in_chans=1", num_classes=3)
    task = {"mean": [0.5], "std": [0.5]}
    Learngene("ancestor", architecture, architecture.build().state_dict(), task=task).save(gray)
    found = package.embed_task(gray, [torch.ones(4, 1, 16, 16)], "a")
    assert_close(found.tensors, package.embed_task(gray, [torch.ones(4, 1, 16, 16)], "a", mean=[0], std=[1]).tensors)
    with pytest.raises(UserError, match="no images"):
        package.embed_task(gray, [], "a")


def test_compare_gives_the_tables_of_the_command(ancestor):
    found = package.compare(ancestor, split="val")
    assert {row.metric for row in found.rows} == {"acc"}
    assert "| ancestor |" in found.to_markdown() == found._repr_markdown_()
    with pytest.raises(UserError, match="baseline"):
        package.compare([ancestor], split="val", baseline="none")


def test_init_and_embed_task_leave_the_generators_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    package.init(arch=ARCH, seed=1)
    assert torch.equal(torch.rand(3), expected)
    folder = tmp_path / "folder"
    assert lgx("init", "--arch", ARCH, "--num_classes", 3, "--out", folder).code == 0
    torch.manual_seed(5)
    package.embed_task(folder, [torch.zeros(2, 3, 16, 16)], "mine")
    assert torch.equal(torch.rand(3), expected)


def test_numbers_are_budgets_and_wrong_values_are_one_sentence():
    model = package.init(params=40_000, arch="img_size=16,patch_size=4", num_classes=3)
    assert 0.9 * 40_000 < sum(parameter.numel() for parameter in model.parameters()) <= 40_000
    assert model.num_classes == 3
    for options, words in (
        ({"arch": ARCH, "seed": -1}, "seed: a seed is a whole number"),
        ({"arch": ARCH, "head": 0}, "head: expected at least 1 class"),
    ):
        with pytest.raises(UserError, match=words):
            package.init(**options)


def test_every_model_says_how_its_images_are_prepared(sws, tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 70, 3), np.uint8))
    weights = timm.create_model("deit_tiny_patch16_224", img_size=32)
    torch.save(weights.state_dict(), tmp_path / "w.pth")
    ok(lgx("import", "timm:deit_tiny_patch16_224", "--weights", tmp_path / "w.pth", "--img_size=32", "--out",
               tmp_path / "imported"))  # fmt: skip
    ok(lgx("init", "--arch=timm:vit_tiny_patch16_224,img_size=32", "--num_classes=3", "--out", tmp_path / "library"))
    models = [
        package.init(sws / f"final{SUFFIX}", ARCH),
        package.init(arch="timm:vit_tiny_patch16_224,img_size=32", num_classes=3),
    ]
    models += [timm.create_model(f"local-dir:{tmp_path / name}", pretrained=True) for name in ("imported", "library")]
    for model in models:
        config = timm.data.resolve_model_data_config(model)
        size, mean, std = config["input_size"][-1], tuple(config["mean"]), tuple(config["std"])
        own = eval_transform(Task("", 3, img_size=size, mean=mean, std=std))(image)
        assert_close(timm.data.create_transform(**config, is_training=False)(image), own, atol=1e-6, rtol=0)
