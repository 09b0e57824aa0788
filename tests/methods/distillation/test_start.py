"""Starts from the ancestor's own layers: which layers go where, what the run learns from them, and resuming."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from lgx.architectures import parse_any_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from lgx.initialization import initialize
from lgx.methods import WeightSelection
from lgx.methods.distillation.start import combine_layers, stage_shares
from lgx.methods.initializers import initializer_for
from lgx.methods.tleg.initializer import expand_linearly, least_squares_shares
from tests.support.command_line import ARCH, ok, refusal

STILL = "--model.optimizer.lr=0"
"""The network keeps its start."""

EIGHT = f"--model.arch={ARCH.replace('depth=4', 'depth=8')}"
STAGES = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def teacher(ancestor: Path) -> str:
    return f"--model.ancestor={ancestor}/final.learngene.safetensors"


@given(STAGES, st.integers(1, 24))
def test_stages_share_the_ancestors_layers_by_their_size(stages, depth):
    mean, middle = stage_shares(stages, depth, "mean"), stage_shares(stages, depth, "middle")
    sizes = torch.tensor(stages, dtype=torch.float64)
    assert_close(mean.sum(1), torch.ones_like(sizes))
    assert_close(sizes @ mean * depth / sum(stages), torch.ones(depth, dtype=torch.float64))  # every layer counts once
    centers = (sizes.cumsum(0) - sizes / 2) * depth / sum(stages)
    assert middle.argmax(1).tolist() == centers.floor().int().tolist()
    assert (middle.sum(1) == 1).all()
    assert (mean[middle == 1] > 0).all()


def test_stages_of_three_take_the_mean_or_the_second_of_three_layers():
    assert stage_shares((3, 3, 3, 3), 12, "middle").argmax(1).tolist() == [1, 4, 7, 10]
    assert_close(stage_shares((3, 3), 6, "mean")[1], torch.tensor([0, 0, 0, 1, 1, 1], dtype=torch.float64) / 3)
    # A stage of 3 of 16 layers is the first 2.25 of 12.
    assert_close(stage_shares((3, 13), 12, "mean")[0, :4], torch.tensor([4, 4, 1, 0], dtype=torch.float64) / 9)
    assert stage_shares((1,) * 4, 12, "middle").argmax(1).tolist() == [1, 4, 7, 10]  # evenly spread


@given(st.integers(2, 12), st.integers(0, 5))
def test_the_fit_recovers_two_layers_from_their_linear_expansion(depth, seed):
    torch.manual_seed(seed)
    learned = {f"blocks.{i}.w": torch.randn(3, 2).double() for i in (0, 1)} | {"norm": torch.ones(1)}
    fitted = combine_layers(expand_linearly(learned, depth), "blocks.", least_squares_shares(depth))
    for name, tensor in learned.items():
        assert_close(fitted[name], tensor)


def test_the_fit_is_the_regression_line_of_every_parameter():
    layers = torch.randn(5, 4, dtype=torch.float64)
    places = torch.arange(5, dtype=torch.float64) / 5
    slope = ((places - places.mean())[:, None] * layers).sum(0) / ((places - places.mean()) ** 2).sum()
    assert_close(least_squares_shares(5) @ layers, torch.stack([layers.mean(0) - places.mean() * slope, slope]))
    assert_close(least_squares_shares(1), torch.tensor([[1.0], [0.0]], dtype=torch.float64))


@pytest.mark.parametrize(
    ("model", "start", "options", "shares"),
    [
        ("SWS", "middle", ["--model.stages=[2,2]"], [[0, 1, 0, 0], [0, 0, 0, 1]]),
        ("SWS", "mean", ["--model.stages=[4,4]", EIGHT], [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]),
        ("MiniDeiT", "middle", ["--model.stages=[2,2]"], [[0, 1, 0, 0], [0, 0, 0, 1]]),
        ("Distill", "middle", [f"--model.arch={ARCH.replace('depth=4', 'depth=2')}"], [[0, 1, 0, 0], [0, 0, 0, 1]]),
        ("TLEG", "fit", [], least_squares_shares(4).tolist()),
    ],
)
def test_the_start_is_the_ancestors_layers_and_everything_outside_them(
    fit, ancestor, tmp_path, model, start, options, shares
):
    ok(fit(model, "--name=s", teacher(ancestor), f"--model.start={start}", STILL, *options))
    run = tmp_path / "runs/test/s/seed0"
    learngene = Learngene.load(run / "final.learngene.safetensors")
    own = Learngene.load(ancestor / "final.learngene.safetensors").tensors
    expected = combine_layers(own, "blocks.", torch.tensor(shares, dtype=torch.float64))
    assert learngene.tensors.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in learngene.tensors.items())
    name = f"{model.replace('Distill', 'simple_lg').replace('MiniDeiT', 'mini_deit').lower()}_from_{start}"
    assert learngene.method == name
    assert {row.method for row in read_rows(run / "results.csv")} == {name}
    initializer = initializer_for(str(run / "final.learngene.safetensors"))
    assert initialize(learngene.architecture.unshared(), initializer).random == ()
    assert initializer.method == name


def test_a_head_of_other_classes_starts_at_random_and_positions_are_resampled(images, fit, ancestor_file, tmp_path):
    finer = "depth=4,embed_dim=24,num_heads=3,patch_size=2,img_size=16"
    result = ok(fit(
        "SWS", "--model.start=mean", "--model.stages=[2,2]", f"--model.ancestor={ancestor_file}",
        f"--model.arch={finer}", "--untrained", "--name=u", command="test",
    ))  # fmt: skip
    assert "random    75 parameters: head" in result.out  # 24 x 3 + 3


def test_a_narrower_network_starts_from_evenly_spaced_elements(fit, ancestor_file, tmp_path):
    narrow = "depth=6,embed_dim=16,num_heads=2,patch_size=4,img_size=16"
    options = ("--model.start=middle", f"--model.ancestor={ancestor_file}", f"--model.arch={narrow}", STILL)
    ok(fit("Distill", "--name=n", *options, "--data.labels=false", "--model.guidance=features"))
    found = Learngene.load(tmp_path / "runs/test/n/seed0/final.learngene.safetensors").tensors
    selected = WeightSelection(ancestor_file)(parse_any_architecture(narrow, num_classes=5))
    assert all(torch.equal(tensor, selected[name]) for name, tensor in found.items())


def test_a_resumed_run_does_not_read_the_start_again(fit, ancestor, tmp_path, monkeypatch):
    options = ("SWS", "--name=r", teacher(ancestor), "--model.start=middle", "--model.stages=[2,2]")
    ok(fit(*options, "--trainer.max_epochs=2", "--experiment=whole"))
    assert fit(*options).code == 0

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is read again")

    monkeypatch.setattr("lgx.methods.distillation.method.load_pretrained", refuse)
    ok(fit(*options, "--trainer.max_epochs=2", "--ckpt_path=last"))
    files = [tmp_path / f"runs/{name}/r/seed0/final.learngene.safetensors" for name in ("whole", "test")]
    assert Learngene.load(files[0]).num_layers == Learngene.load(files[1]).num_layers == 2
    sentence = refusal(fit(*options[:2], teacher(ancestor), "--model.stages=[2,2]", "--ckpt_path=last"))
    assert "model.start was middle, is random" in sentence


def test_images_are_normalized_as_the_ancestor_reads_them_also_after_a_resume(fit, ancestor_file, tmp_path):
    arch = "depth=6,embed_dim=24,num_heads=3,patch_size=4,img_size=16"
    options = ("Distill", "--name=n", "--model.start=middle", f"--model.ancestor={ancestor_file}")
    options += (f"--model.arch={arch}", "--data.labels=false", "--model.scheduler=null", STILL)
    assert fit(*options).code == 0
    resumed = ok(fit(*options, "--trainer.max_epochs=2", "--ckpt_path=last"))
    assert "normalize  mean 0.4, 0.5, 0.6, std 0.2, 0.2, 0.2" in resumed.out
    run = tmp_path / "runs/test/n/seed0"
    stored = load_checkpoint(run / "checkpoints/last.ckpt")["lgx"]["normalization"]
    assert stored == {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.2, 0.2]}
    # The untrained network is its own ancestor: both read the same images, before and after.
    agreement = [row.value for row in read_rows(run / "results.csv") if row.metric == "agreement"]
    divergence = [row.value for row in read_rows(run / "results.csv") if (row.split, row.metric) == ("val", "loss")]
    assert agreement == [1.0, 1.0]
    assert divergence == pytest.approx([0, 0], abs=1e-6)
