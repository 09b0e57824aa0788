"""Options that the pages recommend do not make an easy run worse: three colors, the third of them rare."""

import re
import shlex
from functools import cache

import numpy as np
import pytest
from PIL import Image

from lgx.core.rows import read_rows
from tests.support.command_line import lgx, ok
from tests.support.paths import ROOT

ARCH = "depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=8"
COLORS = np.array(((60, 60, 170), (60, 170, 60), (170, 60, 60)))


def recommended():
    """The options in the table of own-images.md and the averages of training.md; those that may run long are slow."""
    table = (ROOT / "docs/tutorials/own-images.md").read_text().partition("| option | when |")[2].partition("\n\n")[0]
    options = [option for row in table.splitlines() for option in re.findall(r"`(--[^`]+)`", row.partition(" | ")[0])]
    options += re.findall(r"(--trainer\.callbacks\+=\w+Averaging.*)", (ROOT / "docs/training.md").read_text())
    options = [option for option in options if "value_range" not in option]  # images of 8 bits refuse it
    assert len(options) > 8
    is_fast = re.compile("class_weights|balanced|Averaging").search  # they change what is minimized or kept
    return [option if is_fast(option) else pytest.param(option, marks=pytest.mark.slow) for option in options]


def write_colors(root, colors, **splits):
    rng = np.random.default_rng(0)
    for split, sizes in splits.items():
        for label, k in [(label, k) for label, size in enumerate(sizes) for k in range(size)]:
            file = root / split / "abc"[label] / f"patient{k % 40}_{k:03d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            pixels = rng.normal(colors[label], 20, (8, 8, 3)).clip(0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(file)
    return root


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Balanced test accuracy of the recipe for own images, from a trained start, with further options."""
    root = tmp_path_factory.mktemp("easy")
    images = write_colors(root / "images", COLORS, train=(300, 300, 8), test=(30, 30, 30))
    others = write_colors(root / "others", 230 - COLORS, train=(40, 40, 40))

    def fit(name: str, *options: str) -> None:
        command = ["fit", f"--config={ROOT}/lgx/configs/own_images.yaml", f"--runs_dir={root}/runs", f"--name={name}"]
        command += [f"--model.arch={ARCH}", "--data.img_size=8", "--data.batch_size=64", "--model.optimizer.lr=0.003"]
        ok(lgx(*command, "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", *options))

    fit("start", "--model.initializer=RandomStart", f"--data.root={others}")

    @cache
    def run(option: str) -> float:
        name = "r" + re.sub(r"\W+", "_", option)
        start = f"--model.initializer.source={root}/runs/mine/start/seed0/checkpoints/last.ckpt"
        fit(name, start, "--model.head=new", f"--data.root={images}", "--test_end=true", *shlex.split(option))
        rows = read_rows(root / f"runs/mine/{name}/seed0/results.csv")
        return next(row.value for row in rows if (row.split, row.metric) == ("test", "balanced_acc"))

    return run


@pytest.mark.parametrize("option", recommended())
def test_a_recommended_option_makes_an_easy_run_no_worse(train, option):
    assert train(option) >= train("") - 0.02
