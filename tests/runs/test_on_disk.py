"""Files of sweeps that started with an earlier version: their names and contents are fixed."""

import json

import pytest
import yaml

from lgx.host.locks import is_locked, locked
from lgx.runs.jobs import is_finished, mark_finished
from lgx.runs.scheduler import sweep_jobs
from lgx.runs.sweeps import load_sweep


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [
        {"name": "a", "config": "c.yaml", "options": {"model.stages": [2, 2]}},
        {"name": "b", "config": "c.yaml", "command": "test"},
    ]
    (tmp_path / "c.yaml").write_text("")
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"experiment": "e", "seeds": [3], "runs": runs}))
    sweep = load_sweep("s.yaml", "runs")
    return list(sweep_jobs(sweep, sweep.runs).values())


def test_a_finished_run_is_recognized_by_its_command_line(jobs, tmp_path):
    place = ["--config", "c.yaml", "--runs_dir", "runs", "--experiment", "e", "--name"]
    lines = [
        ["fit", *place, "a", "--seed_everything", "3", "--ckpt_path", "last", "--model.stages=[2, 2]"],
        ["test", *place, "b", "--seed_everything", "3", "--untrained", "true"],
    ]
    for job, line in zip(jobs, lines, strict=True):
        mark = tmp_path / job.folder / "finished.json"
        mark.parent.mkdir(parents=True)
        mark.write_text(json.dumps(line))
        assert is_finished(job)
        mark.write_text(json.dumps([*line, "--other"]))
        assert not is_finished(job)
        mark_finished(job)
        assert json.loads(mark.read_text())["arguments"] == line


def test_places_of_runs_logs_and_locks(jobs, tmp_path, monkeypatch):
    first, _ = jobs
    assert (first.folder, first.log) == ("runs/e/a/seed3", "runs/e/jobs/a/seed3.log")
    with locked(first.folder):
        assert [path.name for path in (tmp_path / "runs/e/a").iterdir()] == [".seed3.lock"]
        assert is_locked(first.folder)
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    monkeypatch.setenv("SLURM_PROCID", "2")
    with locked(first.folder):
        assert (tmp_path / "runs/e/a/.seed3.rank2.lock").exists()
