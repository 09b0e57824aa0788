"""Images of other than one or three channels: training, starts, predictions and export."""

import csv

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file

from data_modules.own_images.class_folders import ImageFolderData
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError
from tests.support.command_line import lgx, ok
from tests.support.images import CLASSES, draw

CHANNELS = 5
ARCH = f"depth=2,embed_dim=64,num_heads=1,patch_size=4,img_size=16x24,in_chans={CHANNELS}"


@pytest.fixture(scope="module")
def bands(tmp_path_factory):
    """Class folders of arrays of five channels."""
    root, rng = tmp_path_factory.mktemp("bands") / "bands", np.random.default_rng(0)
    for split, count in (("train", 12), ("test", 4)):
        for label, name in enumerate(CLASSES):
            folder = root / split / name
            folder.mkdir(parents=True)
            for k in range(count):
                pixels = np.asarray(draw(label, rng).resize((20, 16)))
                values = np.concatenate([pixels, pixels[..., :2] // 2], axis=-1)
                np.save(folder / f"{k}.npy", values)
    return root


def test_mean_and_std_of_other_channels_are_measured(bands):
    data = ImageFolderData(root=str(bands), in_chans=CHANNELS, img_size=16)
    data.setup("fit")
    assert data.task.mean[3:] == pytest.approx([whole / 2 for whole in data.task.mean[:2]], abs=0.02)
    assert len(data.task.std) == CHANNELS


def test_a_network_for_rectangles_of_five_channels_is_started_trained_tested_predicted_and_exported(bands, tmp_path):
    name = "vit_tiny_patch16_224"
    save_file(timm.create_model(name, img_size=16, patch_size=4).state_dict(), tmp_path / "w.safetensors")
    sizes = ["--img-size=16", "--patch-size=4", f"--in-chans={CHANNELS}", "--out", tmp_path / "whole"]
    ok(lgx("import", f"timm:{name}", "--weights", tmp_path / "w.safetensors", *sizes))
    words = ["--source", tmp_path / "whole", "--method=weight_selection", "--arch", ARCH, "--head=3"]
    ok(lgx("init", *words, "--out", tmp_path / "start"))
    config = ["--config", "lgx/configs/own_images.yaml", f"--runs_dir={tmp_path}/runs", f"--data.root={bands}"]
    config += [f"--data.in_chans={CHANNELS}", "--data.img_size=[16, 24]", "--data.batch_size=6", f"--model.arch={ARCH}"]
    ok(lgx("fit", *config, f"--model.initializer.source={tmp_path}/start", "--trainer.max_epochs=1", "--test_end=true"))
    run, inputs, found = tmp_path / "runs/mine/small/seed0", torch.randn(2, CHANNELS, 16, 24), []
    for form in ("net", "net.onnx"):
        ok(lgx("export", run, "--out", tmp_path / form))
        ok(lgx("predict", bands / "test", "--model", tmp_path / form, "--out", tmp_path / "p.csv", "--force"))
        with (tmp_path / "p.csv").open(newline="") as file:
            found.append([float(row["probability"]) for row in csv.DictReader(file)])
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    assert len(found[0]) == 12
    exported = timm.create_model(f"local-dir:{tmp_path / 'net'}", pretrained=True).eval()
    assert (exported.pretrained_cfg["input_size"], len(exported.pretrained_cfg["mean"])) == ((5, 16, 24), CHANNELS)
    assert torch.equal(load_pretrained(str(tmp_path / "net")).model.eval()(inputs), exported(inputs))
    assert exported.pos_embed.shape == (1, 1 + 4 * 6, 64)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"in_chans": 17}, "up to 16"),
        ({"in_chans": 4}, "expected 4 channels"),
        ({"in_chans": 5, "augment": "randaugment"}, "use crop or crop_flip"),
        ({"in_chans": 5, "mean": (0.5,) * 4, "std": (0.5,) * 4}, "expected 1, 3 or 5 numbers"),
    ],
)
def test_channels_that_do_not_fit_are_named(bands, options, words):
    with pytest.raises(UserError, match=words):
        ImageFolderData(**{"root": str(bands), "img_size": 16, **options}).setup("fit")
