"""Runs of networks and images with draws of their own: killed, they resume bit for bit; two processes train as one."""

import pytest
import torch
from torch.testing import assert_close

from tests.support.command_line import arguments, lgx
from tests.support.runs import kill_and_resume, last_checkpoint, train_on

pytestmark = pytest.mark.slow

TEMPLATES = ["--model.number=2", "--model.size=8"]
NESTED = ["--model.least_depth=1", "--data.labels=false", "--model.ancestor={ancestor}/final.learngene.safetensors"]
BACKBONES = ["--model.sizes=[depth=2]", "--data.labels=false", "--model.ancestor={ancestor}"]
FAMILY = ["--model.ancestor={ancestor}", "--model.sizes=[depth=2]"]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("TLEG", ["--model.drop_path_rate=0.2"]),
        ("WAVE", TEMPLATES),
        ("Ancestor", ["--data.augment=crop_flip"]),
        ("Nested", NESTED),
        ("Backbones", BACKBONES),
        ("Family", [*FAMILY, "--model.drop_path_rate=0.2"]),
    ],
)
def test_a_killed_run_resumes_bit_for_bit(images, ancestor, tmp_path, method, options):
    given = [option.replace("{ancestor}", str(ancestor)) for option in options]
    given += ["--trainer.max_epochs=3", "--save_every=1", "--data.batch_size=8"]
    assert lgx(*arguments("fit", method, images, tmp_path / "whole", "--name=r", *given)).code == 0
    resumed = kill_and_resume(images, tmp_path / "runs", 8, "before_update", given, method)
    expected, found = last_checkpoint(tmp_path / "whole/test/r/seed0"), last_checkpoint(resumed)
    assert found["global_step"] == expected["global_step"]
    for name, tensor in expected["state_dict"].items():
        assert torch.equal(tensor, found["state_dict"][name]), name
    files = [run / "final.learngene.safetensors" for run in (tmp_path / "whole/test/r/seed0", resumed)]
    assert files[0].read_bytes() == files[1].read_bytes()


FEATURES = ["--model.guidance=features", "--data.labels=false", "--model.ancestor={headless}", "--model.stages=[2,2]"]


@pytest.mark.parametrize(
    ("method", "options", "rtol", "atol"),
    [
        ("TLEG", [], 0, 1e-6),
        ("WAVE", TEMPLATES, 1e-5, 1e-6),
        ("SWS", FEATURES, 0, 1e-5),
        ("Family", FAMILY, 0, 1e-6),
        ("Nested", NESTED, 0, 1e-5),
        ("Backbones", BACKBONES, 0, 1e-5),
    ],
)
def test_two_processes_train_the_same_as_one(images, headless, ancestor, tmp_path, method, options, rtol, atol):
    given = tuple(option.format(headless=headless, ancestor=ancestor) for option in options)
    one = torch.load(train_on(1, images, tmp_path, 16, method, given) / "rank0.pt")
    folder = train_on(2, images, tmp_path, 8, method, given)
    first, second = torch.load(folder / "rank0.pt"), torch.load(folder / "rank1.pt")
    for name, tensor in one.items():
        assert torch.equal(first[name], second[name]), name
        assert_close(first[name], tensor, rtol=rtol, atol=atol, msg=name)
