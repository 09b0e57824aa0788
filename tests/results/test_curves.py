"""Curves are read from the event files of a run."""

import pytest
from torch.utils.tensorboard import SummaryWriter

from lgx.results.curves import read_curves
from tests.results.helpers import add_run


def test_every_recorded_point_is_read(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(10_500):
            writer.add_scalar("train/loss", step, step)
    curves = read_curves(tmp_path)
    assert set(curves) == {"train/loss"}
    assert curves["train/loss"].steps == tuple(range(10_500))


def test_a_resumed_run_counts_what_was_written_last(tmp_path):
    for part, steps, offset in (("a", range(0, 6), 0.0), ("b", range(4, 9), 100.0)):
        with SummaryWriter(str(tmp_path), filename_suffix=part) as writer:
            for step in steps:
                writer.add_scalar("val/loss", step + offset, step, walltime=offset + step)
    curve = read_curves(tmp_path)["val/loss"]
    assert curve.steps == tuple(range(9))
    assert curve.values == (0, 1, 2, 3, 104, 105, 106, 107, 108)


def test_runs_inside_a_run_are_not_mixed_in(tmp_path):
    add_run(tmp_path / "outer/inner", "sws", 4, 0, events=True)
    assert read_curves(tmp_path / "outer") == {}


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage"])
def test_damaged_event_files_give_what_is_readable(tmp_path, damage):
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(100):
            writer.add_scalar("val/acc", step / 100, step)
    (file,) = tmp_path.glob("events*")
    content = file.read_bytes()
    if damage == "truncated":
        file.write_bytes(content[: len(content) // 2 + 7])
        curve = read_curves(tmp_path)["val/acc"]
        assert 20 < len(curve.steps) < 80
        assert curve.values == pytest.approx([step / 100 for step in curve.steps])
    else:
        file.write_bytes(b"" if damage == "empty" else b"\x07" * 5000)
        assert read_curves(tmp_path) == {}
