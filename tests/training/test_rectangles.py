"""Images that are no squares: positions, transforms, starts, training, predictions and export."""

import csv

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from timm.layers import resample_abs_pos_embed

from lgx.architectures.parsing import parse_architecture
from lgx.artifacts.pretrained import load_pretrained
from lgx.commands.api import init
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.hypernet.tracing import trace
from tests.support.command_line import lgx, ok
from tests.support.images import write_images

TIMM = "vit_tiny_patch16_224"
ARCH = "depth=2,embed_dim=192,num_heads=3,patch_size=8,img_size="


@pytest.fixture(scope="module")
def ancestor(tmp_path_factory):
    """Folder of an ancestor for images of 64 x 64 px."""
    folder = tmp_path_factory.mktemp("ancestor")
    save_file(timm.create_model(TIMM).state_dict(), folder / "w.safetensors")
    sizes = ["--img-size=64", "--patch-size=8", "--num-classes=1000"]
    assert lgx("import", f"timm:{TIMM}", "--weights", folder / "w.safetensors", *sizes, "--out", folder / "a").code == 0
    return folder / "a"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Class folders of pictures."""
    return write_images(tmp_path_factory.mktemp("images") / "images", {"train": 24, "test": 9})


def test_a_size_has_one_form_in_texts_files_and_arguments():
    spec = parse_architecture(f"{ARCH}24x40")
    assert spec.img_size == (24, 40)
    assert spec.grid == (3, 5)
    assert spec == type(spec).from_dict(spec.to_dict()) == parse_architecture(spec.spec(), num_classes=1000)
    assert parse_architecture(f"{ARCH}24x24").img_size == 24
    assert Task("x", 2, img_size=[32, 32]).img_size == 32
    for wrong in ("24x41", "24x", "x40", "24x40x8", "0x40"):
        with pytest.raises(UserError, match=r"patch_size|number"):
            parse_architecture(f"{ARCH}{wrong}")


def test_positions_are_resampled_from_the_grid_of_their_source(ancestor):
    square = load_pretrained(str(ancestor)).tensors["pos_embed"]
    for size, grid in (("32x128", [4, 16]), ("96x160", [12, 20])):  # 4 x 16 patches are as many as 8 x 8
        made = init(source=ancestor, arch=f"{ARCH}{size}", method="weight_selection").pos_embed
        assert torch.allclose(made, resample_abs_pos_embed(square, grid), atol=1e-6)
    wide = load_pretrained(str(ancestor)).architecture.replace(img_size=(32, 128))
    fitted = wide.replace(img_size=64).fit_input_sizes({"pos_embed": made_like(wide)}, wide)
    assert not torch.allclose(fitted["pos_embed"], made_like(wide), atol=0.1)
    assert torch.allclose(fitted["pos_embed"], resample_abs_pos_embed(made_like(wide), [8, 8], [4, 16]), atol=1e-6)


def made_like(architecture):
    """Positions of an architecture with random numbers."""
    return torch.randn(architecture.build().pos_embed.shape, generator=torch.Generator().manual_seed(0))


def test_graphs_have_the_rows_and_columns_of_the_patches():
    model = timm.create_model(TIMM, img_size=(32, 128), patch_size=8, depth=1)
    shapes = [node.shape for node in trace(model, (3, 32, 128)).nodes if node.op == "pos_enc"]
    assert shapes == [(1, 192, 4, 16)]


@pytest.mark.parametrize("method", ["weight_selection", "weight_subcloning", "structured_pruning", "mimetic", "random"])
def test_starts_serve_rectangles(ancestor, method):
    source = {} if method in ("mimetic", "random") else {"source": ancestor}
    arch = "depth=2,embed_dim=128,num_heads=2,patch_size=8,img_size=32x128"
    model = init(arch=arch, method=method, num_classes=3, **({"head": 3} if source else {}), **source)
    assert model(torch.zeros(1, 3, 32, 128)).shape == (1, 3)


def test_a_rectangle_is_trained_predicted_and_exported(pictures, ancestor, tmp_path):
    config = ["--config", "lgx/configs/own_images.yaml", f"--runs_dir={tmp_path}/runs", f"--data.root={pictures}"]
    config += ["--data.img_size=[24, 40]", f"--model.arch={ARCH}24x40", "--model.initializer=WeightSelection"]
    config += [f"--model.initializer.source={ancestor}", "--model.head=new"]
    ok(lgx("fit", *config, "--trainer.max_epochs=1", "--data.batch_size=4", "--test_end=true"))
    run = tmp_path / "runs/mine/small/seed0"
    assert lgx("export", run, "--out", tmp_path / "net").code == 0
    exported = timm.create_model(f"local-dir:{tmp_path / 'net'}", pretrained=True).eval()
    assert exported.pretrained_cfg["input_size"] == (3, 24, 40)
    again = load_pretrained(str(tmp_path / "net"))
    images = torch.randn(2, 3, 24, 40)
    assert torch.equal(again.model.eval()(images), exported(images))
    ok(lgx("export", run, "--out", tmp_path / "net.onnx"))
    found = []
    for model in ("net", "net.onnx"):
        out = tmp_path / f"{model}.csv"
        assert lgx("predict", pictures / "test", "--model", tmp_path / model, "--out", out).code == 0
        with out.open(newline="") as file:
            found.append([float(row["probability"]) for row in csv.DictReader(file)])
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    assert load_file(tmp_path / "net/model.safetensors")["pos_embed"].shape == (1, 16, 192)
