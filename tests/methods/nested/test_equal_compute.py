"""The default training of a family is worth its compute: no listed size is behind a network that is trained alone."""

from math import sqrt
from statistics import fmean

import pytest

from lgx.architectures import parse_architecture
from lgx.core.rows import read_rows
from lgx.methods.nested.sizes import default_sizes
from tests.support.command_line import ARCH, arguments, lgx, ok
from tests.support.images import write_images

EPOCHS = 24


def scores(run):
    """Test accuracy by architecture, and the number of images."""
    rows = [row for row in read_rows(run / "results.csv") if (row.split, row.metric) == ("test", "acc")]
    return {row.architecture: row.value for row in rows}, rows[0].n


@pytest.mark.slow
def test_every_size_of_a_family_is_as_good_as_the_same_size_trained_alone_with_its_compute(ancestor, tmp_path):
    images = write_images(tmp_path / "shapes", {"train": 300, "val": 60, "test": 300})
    common = ["--test_end=true", "--trainer.gradient_clip_val=1", "--data.augment=crop_flip"]
    given = arguments("fit", "Family", images, tmp_path, f"--model.ancestor={ancestor}", *common)
    ok(lgx(*given, f"--trainer.max_epochs={EPOCHS}", "--name=family"))
    family, count = scores(tmp_path / "test/family/seed0")
    whole = parse_architecture(ARCH)
    networks = [*default_sizes(whole, with_shallow=True), whole]
    rates = [1 / network.count_macs() for network in networks]
    alone = {}
    for network, rate in zip(networks, rates, strict=True):
        name, arch = f"{network.depth}x{network.embed_dim}x{network.mlp_ratio:g}", network.spec(["mlp_ratio"])
        ok(lgx("init", "--source", ancestor, "--method", "weight_subcloning", "--data", images, "--head", 3,
               "--arch", arch, "--out", tmp_path / name))  # fmt: skip
        steps = round(EPOCHS * 18 * rate / sum(rates))  # 18 whole batches of 16 are a pass
        start = ["--model.initializer=Pretrained", f"--model.initializer.source={tmp_path / name}", f"--name={name}"]
        given = arguments("fit", "Finetune", images, tmp_path, *start, f"--model.arch={arch}", *common)
        ok(lgx(*given, "--trainer.max_epochs=-1", f"--trainer.max_steps={steps}"))
        alone |= scores(tmp_path / f"test/{name}/seed0")[0]
    assert family.keys() == alone.keys()
    noise = 2 * sqrt(0.25 / count)
    assert all(family[name] > score - noise for name, score in alone.items()), (family, alone)
    assert fmean(family.values()) > fmean(alone.values()) - noise / 2, (family, alone)
