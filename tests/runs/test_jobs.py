"""Jobs in processes of this machine: logs, locks, restarts, GPUs."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lgx.host.locks import locked
from lgx.host.signals import REQUEUE
from lgx.runs.executors import LocalExecutor, _share
from lgx.runs.jobs import Job, change_of, is_finished, mark_finished
from lgx.runs.scheduler import Pool
from tests.support.command_line import wait_until
from tests.support.forks import held_elsewhere, is_locked


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with Pool(LocalExecutor(2), 2) as pool:
        yield pool


def test_every_run_has_a_process_a_log_and_an_end(make_job, pool, capsys):
    good, bad = make_job("good", "--version"), make_job("bad", "nonsense")
    pool.start([good, bad])
    assert pool.free == 0
    ended = {}
    while some := pool.wait():
        ended |= {one.name: outcome for one, outcome in some}
    assert ended["good"] == "finished"
    assert Path(good.log).read_text().startswith("lgx ")
    assert ended["bad"].log == bad.log
    assert ended["bad"].reason == Path(bad.log).read_text().strip()
    assert "unknown command 'nonsense'" in ended["bad"].reason
    assert is_finished(good)
    assert not is_finished(bad)

    pool.start([good])
    assert pool.wait() == [(good, "finished")]
    assert Path(good.log).read_text().count("lgx ") == 1
    assert not is_locked(good.folder)


def test_the_reason_why_a_run_did_not_start_is_in_its_log(make_job, pool, tmp_path):
    (tmp_path / "file").touch()
    ill = replace(make_job("ill", "--version"), folder=str(tmp_path / "file" / "seed0"))
    pool.start([ill])
    ((_, outcome),) = pool.wait()
    assert "file: Not a directory" in outcome.reason or "File exists" in outcome.reason
    assert outcome.log == ill.log


def test_a_run_counts_as_finished_until_its_inputs_or_outputs_change(make_job, tmp_path):
    config, learngene = tmp_path / "c.yaml", tmp_path / "best"
    config.touch()
    learngene.touch()
    needed = tmp_path / "ancestor"
    needed.touch()
    done = replace(make_job("a", "fit"), inputs=(str(config), str(needed)), outputs=(str(learngene),))
    mark_finished(done)
    assert is_finished(done)
    assert not is_finished(replace(done, arguments=("fit", "--other")))
    later = time.time() + 5
    os.utime(config, (later, later))
    assert is_finished(done)
    config.write_text("a: 1")
    assert not is_finished(done)
    mark_finished(done)
    assert is_finished(done)
    os.utime(needed, (later, later))
    assert not is_finished(done)
    os.utime(needed, (later - 100, later - 100))
    learngene.unlink()
    assert not is_finished(done)


@pytest.mark.parametrize("is_ended_there", [True, False])
def test_a_run_of_another_process_is_waited_for_and_started_only_if_it_is_unfinished(make_job, pool, is_ended_there):
    one = make_job("one", "--version")
    with held_elsewhere(one.folder):
        pool.start([one])
        wait_until(lambda: "another process works on it" in Path(one.log).read_text(), 60, "the job waits")
        pool._submissions[0].handle.send_signal(REQUEUE)  # it is not training, and finishes
        if is_ended_there:
            mark_finished(one)  # in place of the process that holds the lock
    assert pool.wait() == [(one, "finished")]
    assert Path(one.log).read_text().count("\nlgx ") == (not is_ended_there)


def test_a_killed_run_is_no_longer_locked(make_job, pool):
    """``fit --help-all`` takes as long as torch's import."""
    slow = make_job("slow", "fit", "--help-all")
    pool.start([slow])
    (submission,) = pool._submissions
    wait_until(lambda: is_locked(slow.folder), 60, "the run starts")
    submission.handle.kill()
    ((_, outcome),) = pool.wait()
    assert outcome.reason == "its process was killed"
    assert not is_locked(slow.folder)


@pytest.mark.parametrize(
    ("gpus", "slots", "shares"),
    [
        ([], 2, [[], []]),
        (["0", "1", "2", "3"], 2, [["0", "1"], ["2", "3"]]),
        (["0", "1"], 3, [["0"], ["1"], ["0"]]),
        (["0", "1", "2"], 2, [["0"], ["1", "2"]]),
    ],
)
def test_parallel_runs_divide_the_gpus(gpus, slots, shares):
    found = [_share(gpus, slot, slots) for slot in range(slots)]
    assert [len(share) for share in found] == [len(share) for share in shares]
    if len(gpus) >= slots:
        assert found == shares


def test_every_process_of_a_run_that_slurm_starts_has_its_own_lock(make_job, monkeypatch):
    folder = Path(make_job("a", "fit").folder)
    with locked(folder):
        assert [path.name for path in folder.parent.iterdir()] == [".seed0.lock"]
        monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
        monkeypatch.setenv("SLURM_PROCID", "2")
        with locked(folder) as is_held:
            assert is_held
            assert (folder.parent / ".seed0.rank2.lock").exists()


def test_options_in_another_order_are_no_change(tmp_path):
    job = Job("a", str(tmp_path), ("fit", "--model.label=x", "--model.arch=y"), "")
    mark_finished(job)
    assert change_of(replace(job, arguments=("fit", "--model.arch=y", "--model.label=x"))) is None
    assert "--model.arch=z" in str(change_of(replace(job, arguments=("fit", "--model.arch=z", "--model.label=x"))))
