"""Two real processes (gloo) train the same as one."""

import json
from types import SimpleNamespace

import pytest
import torch

from lgx.core.rows import read_rows
from lgx.training.callbacks import SaveResults
from tests.support.command_line import arguments, python
from tests.support.images import write_images
from tests.support.runs import train_on


@pytest.mark.slow  # tests/project/test_ddp_methods.py compares one method in the fast tests
@pytest.mark.parametrize("method", ["Ancestor", "SWS"])
def test_two_processes_with_half_the_batch_equal_one_with_the_whole(images, tmp_path, method):
    options = ["--model.stages=[2,2]"] if method == "SWS" else []
    one = train_on(1, images, tmp_path, 16, method, tuple(options))
    two = train_on(2, images, tmp_path, 8, method, tuple(options))
    single, first, second = (torch.load(p) for p in (one / "rank0.pt", two / "rank0.pt", two / "rank1.pt"))
    for name, tensor in single.items():
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], tensor, rtol=0, atol=1e-6)
    seen = [json.loads((folder / f"rank{r}.json").read_text()) for folder, r in ((one, 0), (two, 0), (two, 1))]
    for whole, a, b in zip(seen[0]["seen"], seen[1]["seen"], seen[2]["seen"], strict=True):
        assert a + b == pytest.approx(whole)
    assert [s["val/n"] for s in seen] == [9, 9, 9]
    assert seen[1]["val/acc"] == seen[2]["val/acc"] == pytest.approx(seen[0]["val/acc"])
    assert seen[1]["val/loss"] == pytest.approx(seen[0]["val/loss"], abs=1e-5)
    alone, together = (training_losses(tmp_path / f"runs{devices}/test/r/seed0") for devices in (1, 2))
    assert [(epochs, n) for epochs, n, _ in together] == [(1, 48), (2, 48)]
    for one_loss, two_loss in zip(alone, together, strict=True):
        assert two_loss == pytest.approx(one_loss, abs=1e-5)


def test_each_process_continues_its_own_share_of_an_interrupted_epoch():
    """The first process writes the checkpoint for all; ``make slurm`` checks this with real processes."""
    shares = [(3, 0.5), (4, 0.25)]

    def trainer(rank, world):
        column = iter([torch.tensor([seen for seen, _ in shares]), torch.tensor([mean for _, mean in shares])])
        strategy = SimpleNamespace(all_gather=lambda _: next(column))
        return SimpleNamespace(global_rank=rank, world_size=world, is_global_zero=rank == 0, strategy=strategy)

    first = SaveResults()
    first.load_state_dict({"epoch": 2, "seen": 3, "mean": 0.5})
    checkpoint = {"callbacks": {first.state_key: first.state_dict()}}
    first.on_save_checkpoint(trainer(0, 2), SimpleNamespace(device="cpu"), checkpoint)

    def resumed(rank, world):
        callback = SaveResults()
        callback.load_state_dict(checkpoint["callbacks"][first.state_key])
        callback.on_train_start(trainer(rank, world), None)
        state = callback.state_dict()
        return state["seen"], state["mean"]

    assert [resumed(rank, 2) for rank in (0, 1)] == shares
    assert resumed(0, 1) == (7, pytest.approx((3 * 0.5 + 4 * 0.25) / 7))
    assert resumed(0, 3)[0] == 7
    assert resumed(1, 3) == (0, 0.0)


def training_losses(run):
    return [(r.epochs, r.n, r.value) for r in read_rows(run / "results.csv") if r.split == "train"]


@pytest.mark.slow
def test_a_wrong_image_under_ddp_gives_no_traceback(tmp_path):
    images = write_images(tmp_path / "shapes", {"train": 24, "val": 6, "test": 3})
    broken = images / "train" / "circle" / "000.png"
    broken.write_bytes(broken.read_bytes()[:60])
    options = ["--name=d", "--trainer.devices=2", "--trainer.strategy=ddp", "--data.batch_size=12"]
    args = arguments("fit", "Ancestor", images, tmp_path / "runs", *options)
    done = python("-m", "lgx", *[a for a in args if a != "--trainer.devices=1"], OMP_NUM_THREADS="1")
    assert done.returncode != 0
    assert "000.png" in done.stderr
    assert "Traceback" not in done.stderr
