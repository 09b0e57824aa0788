"""Runs of a sweep: order, failures, dependents."""

from pathlib import Path

import pytest
import yaml

from lgx.core.rows import Row, read_rows, write_rows
from lgx.errors import UserError
from lgx.runs.executors import Failure, Submission
from lgx.runs.jobs import mark_finished
from lgx.runs.scheduler import Pool, run_sweep, sweep_jobs
from lgx.runs.sweeps import load_sweep, pending_runs


class FakeExecutor:
    """An executor whose jobs end one after another at each poll, in the order of their start."""

    interval = 0.0

    def __init__(self, limit, play):
        self.limit, self.play = limit, play
        self.events, self.most, self._open = [], 0, []

    def submit(self, jobs):
        submissions = [Submission(job, None) for job in jobs]
        self._open += submissions
        self.most = max(self.most, len(self._open))
        self.events += [("start", job.name) for job in jobs]
        return submissions

    def poll(self, submission):
        if submission is not self._open[0]:
            return None
        self._open.pop(0)
        self.events.append(("end", submission.job.name))
        return self.play(submission.job)

    def cancel(self, submissions):
        self.events += [("cancel", submission.job.name) for submission in submissions]


def finish(job):
    """Write the files of a finished run."""
    row = Row("m", "a", "t", "test", 1, "acc", 0.5, 0, 10, job.folder)
    write_rows(Path(job.folder) / "results.csv", [row])
    mark_finished(job)
    return "finished"


@pytest.fixture
def chain(tmp_path):
    """Two seeds of ancestor -> sws -> sws-ft, in reverse order, and of a run that needs no other."""
    path = "{{runs}}/{}/seed{{seed}}/final.learngene.safetensors"
    runs = [
        {"name": "sws-ft", "config": "c.yaml", "options": {"model.init": path.format("sws")}},
        {"name": "sws", "config": "c.yaml", "options": {"model.ancestor": path.format("ancestor")}},
        {"name": "ancestor", "config": "c.yaml"},
        {"name": "random", "config": "c.yaml"},
    ]
    (tmp_path / "c.yaml").write_text("")
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"experiment": "e", "seeds": [0, 1], "runs": runs}))
    return load_sweep(tmp_path / "s.yaml", str(tmp_path / "runs"))


def rehearse(sweep, executor, tmp_path):
    results = tmp_path / "measured.csv"
    jobs = sweep_jobs(sweep, pending_runs(sweep, results))
    run_sweep(sweep, jobs, Pool(executor, len(jobs)), results)


def test_runs_start_after_the_runs_they_need_and_ordered_by_seed(chain, tmp_path, capsys):
    executor = FakeExecutor(2, finish)
    rehearse(chain, executor, tmp_path)
    started = [name for what, name in executor.events if what == "start"]
    assert len(set(started)) == len(started) == 8
    for seed in (0, 1):
        for need, name in (("ancestor", "sws"), ("sws", "sws-ft")):
            ended = executor.events.index(("end", f"{need} seed {seed}"))
            assert ended < executor.events.index(("start", f"{name} seed {seed}"))
    assert started[:2] == ["ancestor seed 0", "random seed 0"]
    assert started.index("sws-ft seed 0") < started.index("sws-ft seed 1")
    assert executor.most == 2
    assert len(read_rows(tmp_path / "measured.csv")) == 8
    assert "8 of 8 done" in capsys.readouterr().out


def test_only_the_dependents_of_a_failed_run_are_skipped(chain, tmp_path, capsys):
    fails = lambda job: Failure("no space", "x.log") if job.name == "ancestor seed 0" else finish(job)  # noqa: E731
    with pytest.raises(UserError) as error:
        rehearse(chain, FakeExecutor(2, fails), tmp_path)
    assert str(error.value) == (
        "1 of 8 runs failed: ancestor seed 0 (no space; log x.log); 2 run(s) that need them were skipped; "
        "the same command runs the missing runs"
    )
    out = capsys.readouterr().out
    assert "skipped    sws seed 0: it needs ancestor seed 0" in out
    assert "skipped    sws-ft seed 0: it needs sws seed 0" in out
    assert "8 of 8 done, 1 failed, 0 running" in out
    assert len(read_rows(tmp_path / "measured.csv")) == 5
    again = FakeExecutor(2, finish)
    rehearse(chain, again, tmp_path)
    assert [name for what, name in again.events if what == "start"] == [
        "ancestor seed 0", "sws seed 0", "sws-ft seed 0",
    ]  # fmt: skip
