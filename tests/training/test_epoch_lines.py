"""The line of each epoch: what it holds, when it comes, what it costs."""

import re
from collections import Counter

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from lgx.core.rows import read_rows
from lgx.training import run_callbacks
from lgx.training.callbacks import LiveBar, epoch_lines
from lgx.training.display import display_callbacks
from tests.support.text_runs import run as run_text

EPOCH = re.compile(
    r"epoch +(\d+)/(\d+)  train loss ([\d.]+)  val accuracy ([\d.]+) %  val loss ([\d.]+)  [\d.,]+ images/s"
    r"(  [\d.]+ s left)?"
)


def lines_of(out, word):
    return [line for line in out.splitlines() if line.startswith(f"{word} ")]


def test_each_epoch_has_one_line_with_the_values_of_the_results(fit, tmp_path):
    result = fit("Ancestor", "--name=a", "--trainer.max_epochs=3", "--model.optimizer.lr=0.01")
    assert result.code == 0, result.err
    found = [EPOCH.fullmatch(line) for line in lines_of(result.out, "epoch")]
    assert all(found), result.out
    rows = read_rows(tmp_path / "runs/test/a/seed0/results.csv")
    value = {(row.epochs, row.split, row.metric): row.value for row in rows}
    assert [match.groups()[:2] for match in found] == [("1", "3"), ("2", "3"), ("3", "3")]
    for epoch, match in enumerate(found, 1):
        train, accuracy, loss = (float(text) for text in match.groups()[2:5])
        assert train == pytest.approx(value[epoch, "train", "loss"], rel=1e-3)
        assert accuracy == pytest.approx(100 * value[epoch, "val", "acc"], abs=0.051)
        assert loss == pytest.approx(value[epoch, "val", "loss"], rel=1e-3)
    assert [match.group(6) is None for match in found] == [False, False, True]  # nothing is left after the last one
    assert re.search(r"^trained    9 step\(s\) in ", result.out, re.MULTILINE)


def test_a_run_by_steps_counts_steps(fit):
    result = fit("Ancestor", "--name=a", "--trainer.max_steps=7", "--trainer.max_epochs=-1")
    assert result.code == 0, result.err
    lines = lines_of(result.out, "step")
    assert [line.split()[1] for line in lines] == ["3/7", "6/7", "7/7"]
    assert ["val accuracy" in line for line in lines] == [True, True, False]  # the last epoch has no validation
    assert lines_of(result.out, "epoch") == []


def test_a_run_by_steps_without_validation_has_few_lines(fit):
    options = ["--trainer.max_steps=18", "--trainer.max_epochs=-1", "--trainer.limit_val_batches=0"]
    result = fit("Ancestor", "--name=a", *options)
    assert result.code == 0, result.err
    assert [line.split()[1] for line in lines_of(result.out, "step")] == ["18/18"]
    assert "best       none was saved, because val/acc was not measured" in result.out


def test_a_long_epoch_has_lines_of_its_own(fit, monkeypatch):
    monkeypatch.setattr(epoch_lines, "_SHORTEST", 0.0)
    monkeypatch.setattr(epoch_lines, "_LONGEST", 0.0)
    result = fit("Ancestor", "--name=a", "--data.batch_size=8", "--trainer.max_epochs=2")
    assert result.code == 0, result.err
    steps = [line.split() for line in lines_of(result.out, "step")]
    assert [words[1] for words in steps[:5]] == ["1/12", "2/12", "3/12", "4/12", "5/12"]
    assert [words[1] for words in steps[5:]] == ["7/12", "8/12", "9/12", "10/12", "11/12"]
    losses = [float(words[words.index("loss") + 1]) for words in steps]
    means = [float(line.split()[4]) for line in lines_of(result.out, "epoch")]
    for mean, own in zip(means, (losses[:5], losses[5:]), strict=True):
        last = 6 * mean - sum(own)  # the step that the epoch's line includes
        assert min(own) - 0.5 < last < max(own) + 0.5


def test_a_validation_within_an_epoch_has_a_line_and_the_epoch_repeats_it(fit):
    result = fit("Ancestor", "--name=a", "--trainer.val_check_interval=2")
    assert result.code == 0, result.err
    (step,), (epoch,) = lines_of(result.out, "step"), lines_of(result.out, "epoch")
    assert step.split()[1] == "2/3"
    validated = re.search(r"val accuracy [\d.]+ %  val loss [\d.]+", step)
    assert validated
    assert validated.group() in epoch


def test_a_resumed_run_says_where_it_continues(fit):
    assert fit("Ancestor", "--name=a").code == 0
    result = fit("Ancestor", "--name=a", "--trainer.max_epochs=2", "--ckpt_path=last")
    assert result.code == 0, result.err
    assert "resumed    after step 3, in epoch 2" in result.out
    (line,) = lines_of(result.out, "epoch")
    assert EPOCH.fullmatch(line).groups()[:2] == ("2", "2")
    assert "trained    3 step(s)" in result.out


def test_an_early_end_is_explained(fit):
    stop = [
        "--trainer.callbacks+=EarlyStopping",
        "--trainer.callbacks.monitor=val/acc",
        "--trainer.callbacks.patience=1",
    ]
    result = fit("Ancestor", "--name=a", *stop, "--trainer.max_epochs=9", "--model.optimizer.lr=0")
    assert result.code == 0, result.err
    assert len(lines_of(result.out, "epoch")) == 2
    assert "stopped    early: Monitored metric val/acc did not improve" in result.out


def test_texts_are_counted_as_examples(text_root, tmp_path):
    result = run_text(text_root, tmp_path, "Finetune", "--test_end=true")
    assert result.code == 0, result.err
    (line,) = lines_of(result.out, "epoch")
    assert re.fullmatch(
        r"epoch +1/1  train loss [\d.]+  val Matthews correlation -?[\d.]+ %  val accuracy [\d.]+ %  val loss [\d.]+  "
        r"[\d.,]+ examples/s",
        line,
    )
    assert re.search(r"^final      test Matthews correlation -?[\d.]+ % of \d+ texts of cola", result.out, re.MULTILINE)


class CountReads(TorchDispatchMode):
    """Counts how often a value of a tensor is read, for which a GPU would have to be waited for."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[function.name()] += 1
        return function(*args, **(kwargs or {}))

    @property
    def reads(self):
        return self.counts["aten::_local_scalar_dense"]


def test_no_step_waits_for_the_lines_or_the_bar(fit, monkeypatch):
    def lines_and_bar(command, trainer, results):
        callbacks = display_callbacks(command, trainer, results)
        trainer.enable_progress_bar = True
        return [*callbacks, LiveBar()]

    def reads(name, batch, shown):
        with monkeypatch.context() as patch, CountReads() as counter:
            patch.setattr(epoch_lines, "_SHORTEST", 1e9)
            patch.setattr(run_callbacks, "display_callbacks", lines_and_bar if shown else lambda *_: [])
            options = [f"--data.batch_size={batch}", "--trainer.log_every_n_steps=1000"]
            result = fit("Ancestor", f"--name={name}", *options)
            assert result.code == 0, result.err
        return counter.reads

    few, many = (reads(f"s{batch}", batch, True) - reads(f"h{batch}", batch, False) for batch in (16, 2))
    assert few == many  # of 3 steps and of 24
    assert few > 0  # the line itself reads the metrics of the validation


def test_a_line_right_before_a_validation_leaves_no_empty_one_behind(fit, monkeypatch):
    monkeypatch.setattr(epoch_lines, "_SHORTEST", 0.0)
    monkeypatch.setattr(epoch_lines, "_LONGEST", 0.0)
    result = fit("Ancestor", "--name=a", "--data.batch_size=8", "--trainer.val_check_interval=2")
    assert result.code == 0, result.err
    lines = lines_of(result.out, "step")
    assert [line.split()[1] for line in lines] == ["1/6", "2/6", "2/6", "3/6", "4/6", "4/6", "5/6"]
    assert not [line for line in lines if "0.000" in line or " 0.00 images/s" in line], lines
