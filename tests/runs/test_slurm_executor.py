"""Jobs on a SLURM cluster, as far as SLURM's commands show them."""

import os
import signal
import sys

import pytest

from lgx.errors import Preempted, UserError
from lgx.runs.jobs import Job, is_finished, run_on_cluster
from lgx.runs.scheduler import Pool
from lgx.runs.slurm_executor import SlurmExecutor, SlurmStates

SBATCH = """#!/bin/sh
number=$((100 + $(ls {home}/scripts | wc -l)))
script={home}/scripts/$number.sh
cp "$1" $script
test -e {home}/busy || for task in $(seq 0 $(sed -n 's/.*--array=0-\\([0-9]*\\).*/\\1/p' $script)); do
  export SLURM_JOB_ID=$number SLURM_ARRAY_JOB_ID=$number SLURM_ARRAY_TASK_ID=$task
  setsid bash $script > /dev/null 2>&1 &
done
echo "Submitted batch job $number"
"""
SRUN = """#!/bin/bash
while [ "$1" != --kill-on-bad-exit=1 ]; do shift; done
exec "${@:2}"
"""

DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Replacements of SLURM's commands: jobs start at once on this machine, and squeue prints the file ``state``."""
    home = tmp_path / "slurm"
    (home / "scripts").mkdir(parents=True)
    (home / "state").write_text("RUNNING")
    table = f'for job in 100 100_0 100_1 100_2; do echo "$job|$(cat {home}/state)"; done'
    scripts = {
        "sbatch": SBATCH.replace("{home}", str(home)),
        "srun": SRUN,
        "squeue": f"#!/bin/sh\nif test -s {home}/fails; then cat {home}/fails >&2; exit 1; fi\n{table}\n",
        "scancel": f'#!/bin/sh\necho "$@" >> {home}/cancelled\n',
    }
    for name, text in scripts.items():
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    monkeypatch.setattr(SlurmStates, "interval", 0)
    monkeypatch.setattr(SlurmExecutor, "interval", 0.1)
    monkeypatch.setattr(SlurmExecutor, "pause", 0)
    return home


@pytest.fixture
def submitted(make_job, cluster, tmp_path):
    """A job that stays queued, and its executor."""
    (cluster / "busy").touch()
    executor = SlurmExecutor(tmp_path / "e/jobs/submitit", 1, {"timeout_min": 5})
    (submission,) = executor.submit([make_job("a", "fit")])
    return executor, submission


@pytest.fixture
def own_handlers():
    """Restore the handlers of signals that a job sets."""
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_slurm_runs_an_array_with_the_given_parameters(make_job, cluster, tmp_path):
    parameters = {"partition": "gpu", "timeout_min": 240, "gpus_per_node": 2, "mem_gb": 8, "account": "lab"}
    with Pool(SlurmExecutor(tmp_path / "e/jobs/submitit", 2, parameters), 3) as pool:
        jobs = [
            make_job(name, *arguments) for name, *arguments in (("a", "--version"), ("b", "oops"), ("c", "--version"))
        ]
        pool.start(jobs)
        ended = {}
        while some := pool.wait():
            ended |= {one.name: outcome for one, outcome in some}
    assert (ended["a"], ended["c"]) == ("finished", "finished")
    assert "unknown command 'oops'" in ended["b"].reason
    assert ended["b"].log == jobs[1].log
    (script,) = (cluster / "scripts").iterdir()
    lines = script.read_text().splitlines()
    for flag in (
        "--array=0-2%2", "--partition=gpu", "--time=240", "--gpus-per-node=2", "--mem=8GB", "--account=lab",
        "--requeue", "--signal=USR1@90",
    ):  # fmt: skip
        assert f"#SBATCH {flag}" in lines
    assert not (cluster / "cancelled").exists()


def test_a_requeued_run_has_not_ended(make_job, monkeypatch, own_handlers):
    """The process ends with exit code 0 but without a summary; SLURM then starts the job again."""
    again = make_job("a", "fit")
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(SystemExit):
        run_on_cluster(again)
    assert not is_finished(again)


def test_a_requeued_job_is_waited_for(submitted, cluster):
    executor, submission = submitted
    for state in ("RUNNING", "COMPLETING", "PREEMPTED", "REQUEUED", "PENDING", "CONFIGURING", "RUNNING", "NODE_FAIL"):
        (cluster / "state").write_text(state)
        assert executor.poll(submission) is None


@pytest.mark.parametrize("state", ["CANCELLED", "NODE_FAIL", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY", "COMPLETED"])
def test_a_job_that_slurm_ended_without_a_result_has_failed(submitted, cluster, state):
    executor, submission = submitted
    (cluster / "state").write_text(state)
    assert executor.poll(submission) is None
    assert executor.poll(submission).reason == f"SLURM reports {state}"


def test_a_job_that_slurm_lists_no_longer_has_failed(submitted, cluster):
    executor, submission = submitted
    (cluster / "fails").write_text("slurm_load_jobs error: Invalid job id specified")
    assert executor.poll(submission) is None
    assert executor.poll(submission).reason == "SLURM reports no such job any more"


def test_a_controller_that_does_not_answer_is_waited_for_and_reported_once(submitted, cluster, capsys):
    executor, submission = submitted
    (cluster / "fails").write_text(DOWN)
    assert [executor.poll(submission) for _ in range(4)] == [None] * 4
    assert capsys.readouterr().err == f"waiting    SLURM does not answer ({DOWN}); the sweep tries again\n"
    (cluster / "fails").write_text("")
    (cluster / "state").write_text("CANCELLED")
    assert executor.poll(submission) is None
    assert executor.poll(submission).reason == "SLURM reports CANCELLED"


def test_a_submission_is_repeated_until_the_controller_answers(make_job, cluster, tmp_path):
    (cluster / "sbatch").rename(cluster / "answers")
    first = f"if mkdir {cluster}/asked 2>/dev/null; then echo '{DOWN}' >&2; exit 1; fi"
    (cluster / "sbatch").write_text(f'#!/bin/sh\n{first}\nexec {cluster}/answers "$@"\n')
    (cluster / "sbatch").chmod(0o755)
    (cluster / "busy").touch()
    (submission,) = SlurmExecutor(tmp_path / "x", 1, {"timeout_min": 5}).submit([make_job("a", "fit")])
    assert submission.handle.job_id == "100"


def test_a_run_that_the_cluster_ends_leaves_no_result(make_job, tmp_path, monkeypatch, own_handlers):
    """SIGTERM reaches the run and the process that waits for it; SLURM may queue the job again."""
    stopped = make_job("a", "fit")
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\nkill -TERM $PPID\nexit 143\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(SystemExit) as ended:
        run_on_cluster(stopped)
    assert ended.value.code == 143


def test_leaving_the_pool_cancels_queued_jobs(make_job, cluster, tmp_path):
    (cluster / "busy").touch()
    executor = SlurmExecutor(tmp_path / "e/jobs/submitit", 2, {"timeout_min": 5})
    pool = Pool(executor, 2)
    pool.start([make_job("a", "--version"), make_job("b", "--version")])
    with pytest.raises(Preempted, match="2 run"), pool:
        raise KeyboardInterrupt
    assert (cluster / "cancelled").read_text().split() == ["100_0", "100_1"]


def test_wrong_parameters_of_slurm_are_explained(cluster, tmp_path):
    with pytest.raises(UserError, match="--slurm: Unknown argument 'partion'"):
        SlurmExecutor(tmp_path, 1, {"timeout_min": 5, "partion": "x"})
    with pytest.raises(UserError, match="timeout_min must be longer than the 90 seconds of signal_delay_s, got 1"):
        SlurmExecutor(tmp_path, 1, {"timeout_min": 1})
    (cluster / "sbatch").write_text("#!/bin/sh\necho 'invalid partition' >&2\nexit 1\n")
    with pytest.raises(UserError, match="sbatch refused the jobs: invalid partition"):
        SlurmExecutor(tmp_path, 1, {"timeout_min": 5}).submit([Job("a", str(tmp_path / "a"), ("--version",), "x.log")])
