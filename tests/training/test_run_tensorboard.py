"""TensorBoard's tags: scores and losses first, bookkeeping last."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lgx.results.curves import read_curves
from lgx.training.loggers.run_tensorboard import shown_tag


@pytest.fixture
def events(fit, tmp_path):
    """Events of a run of two epochs."""
    options = ["--trainer.max_epochs=2", "--trainer.log_every_n_steps=1", "--test_end=true"]
    assert fit("Ancestor", "--name=r", *options).code == 0
    found = EventAccumulator(str(tmp_path / "runs/test/r/seed0"))
    found.Reload()
    return found


def test_bookkeeping_is_one_group_behind_the_scores(events):
    groups = sorted({tag.partition("/")[0] for tag in events.Tags()["scalars"]})
    assert groups == ["test", "train", "val", "z_run"]
    last = {tag for tag in events.Tags()["scalars"] if tag.startswith("z_run/")}
    assert {"z_run/epoch", "z_run/effective_batch", "z_run/trainable_parameters", "z_run/best_val"} <= last
    assert any(tag.startswith("z_run/lr-") for tag in last)


def test_naming_the_scores_of_the_hparams_tab_adds_no_point_to_their_curves(events, tmp_path):
    assert [event.step > 0 for event in events.Scalars("val/acc")] == [True, True]
    assert len(events.Scalars("test/acc")) == 1
    assert "_hparams_/experiment" in events.summary_metadata
    curves = read_curves(tmp_path / "runs/test/r/seed0")
    assert len(curves["val/acc"].steps) == 2


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ("epoch", "z_run/epoch"), ("lr-AdamW/pg1", "z_run/lr-AdamW/pg1"), ("hp/best_val", "z_run/best_val"),
        ("val/acc", "val/acc"), ("train/loss", "train/loss"), ("grad_norm", "grad_norm"), ("val/epoch", "val/epoch"),
        ("test/n", "z_run/test/n"), ("val/dtd/n", "z_run/val/dtd/n"),
    ],
)  # fmt: skip
def test_only_bookkeeping_has_another_tag(tag, shown):
    assert shown_tag(tag) == shown
