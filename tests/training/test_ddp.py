"""Two real processes (gloo) train the same as one."""

from types import SimpleNamespace

import pytest
import torch

from lgx.training.callbacks import SaveResults
from tests.support.command_line import arguments, python
from tests.support.images import write_images


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
