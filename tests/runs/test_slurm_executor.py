"""Jobs on a SLURM cluster, as far as SLURM's commands show them."""

import os
import signal
import sys

import pytest

from lgx.errors import Preempted, UserError
from lgx.runs.jobs import Job, is_finished, run_in_subprocess
from lgx.runs.pool import Pool
from lgx.runs.progress import Progress
from lgx.runs.submitit_executors import SlurmExecutor

SBATCH = """#!{python}
import os, re, subprocess, sys
home = "{home}"
text = open(sys.argv[1]).read()
number = 100 + len(os.listdir(home + "/scripts"))
open(home + f"/scripts/{{number}}.sh", "w").write(text)
array = re.search(r"--array=0-(\\d+)", text)
if os.path.exists(home + "/busy"):
    tasks = []
else:
    tasks = range(int(array[1]) + 1) if array else [None]
for task in tasks:
    env = {{**os.environ, "SLURM_JOB_ID": str(number)}}
    if task is not None:
        env |= {{"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(task)}}
    subprocess.Popen(["bash", sys.argv[1]], env=env, start_new_session=True, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
print(f"Submitted batch job {{number}}")
"""
SRUN = """#!{python}
import os, sys
arguments = sys.argv[1:]
command = arguments[arguments.index("--error") + 2:]
for name, stream in (("--output", 1), ("--error", 2)):
    path = arguments[arguments.index(name) + 1]
    job, task = os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_ARRAY_TASK_ID", "")
    path = path.replace("%A_%a", f"{{job}}_{{task}}").replace("%j", job).replace("%t", "0")
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
os.execvp(command[0], command)
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Replacements of SLURM's commands: jobs start at once on this machine, and sacct prints the file ``state``."""
    home = tmp_path / "slurm"
    (home / "scripts").mkdir(parents=True)
    (home / "state").write_text("RUNNING")
    table = f'for job in 100 100_0 100_1; do echo "$job|$(cat {home}/state)|n"; done'
    scripts = {
        "sbatch": SBATCH.format(python=sys.executable, home=home),
        "srun": SRUN.format(python=sys.executable),
        "sacct": f"#!/bin/sh\necho 'JobID|State|NodeList'\n{table}\n",
        "scancel": f'#!/bin/sh\necho "$@" >> {home}/cancelled\n',
    }
    for name, text in scripts.items():
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    from submitit import SlurmJob

    yield home
    SlurmJob.watcher.clear()
    SlurmJob.watcher._registered.clear()


def test_slurm_runs_an_array_with_the_given_parameters(make_job, cluster, tmp_path):
    parameters = {"partition": "gpu", "timeout_min": 240, "gpus_per_node": 2, "mem_gb": 8, "account": "lab"}
    with Pool(SlurmExecutor(tmp_path / "e/jobs/submitit", 2, parameters), Progress(3)) as pool:
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


def test_a_requeued_run_has_not_ended(make_job, cluster, tmp_path, monkeypatch):
    """The process ends with exit code 0 but without a summary; SLURM then starts the job again."""
    again = make_job("a", "fit")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/true")
        before = signal.getsignal(signal.SIGUSR1)
        with pytest.raises(SystemExit):
            run_in_subprocess(again, {}, None)
        signal.signal(signal.SIGUSR1, before)
    assert not is_finished(again)

    (cluster / "busy").touch()
    executor = SlurmExecutor(tmp_path / "e/jobs/submitit", 1, {"timeout_min": 5})
    (submission,) = executor.submit([again])
    for state in ("PREEMPTED", "REQUEUED", "PENDING", "RUNNING"):
        (cluster / "state").write_text(state)
        submission.handle.watcher.update()
        assert executor.poll(submission) is None


def test_leaving_the_pool_cancels_queued_jobs(make_job, cluster, tmp_path):
    (cluster / "busy").touch()
    executor = SlurmExecutor(tmp_path / "e/jobs/submitit", 2, {"timeout_min": 5})
    pool = Pool(executor, Progress(2))
    pool.start([make_job("a", "--version"), make_job("b", "--version")])
    with pytest.raises(Preempted, match="2 run"), pool:
        raise KeyboardInterrupt
    assert (cluster / "cancelled").read_text().split() == ["100_0", "100_1"]


def test_a_job_that_slurm_ended_without_a_result_has_failed(make_job, cluster, tmp_path, monkeypatch):
    from submitit import SlurmJob

    monkeypatch.setattr(SlurmJob, "_results_timeout_s", 0)
    (cluster / "busy").touch()
    (cluster / "state").write_text("OUT_OF_MEMORY")
    with Pool(SlurmExecutor(tmp_path / "e/jobs/submitit", 2, {"timeout_min": 5}), Progress(1)) as pool:
        pool.start([make_job("a", "--version")])
        ((_, outcome),) = pool.wait()
    assert outcome.reason == "SLURM reports OUT_OF_MEMORY"


def test_wrong_parameters_of_slurm_are_explained(cluster, tmp_path):
    with pytest.raises(UserError, match="--slurm: Unknown argument 'partion'"):
        SlurmExecutor(tmp_path, 1, {"timeout_min": 5, "partion": "x"})
    with pytest.raises(UserError, match='--slurm: Parameter "timeout_min" expected type'):
        SlurmExecutor(tmp_path, 1, {"timeout_min": "x"})
    (cluster / "sbatch").write_text("#!/bin/sh\necho 'invalid partition' >&2\nexit 1\n")
    with pytest.raises(UserError, match="sbatch refused the jobs: invalid partition"):
        SlurmExecutor(tmp_path, 1, {"timeout_min": 5}).submit([Job("a", str(tmp_path / "a"), ("--version",), "x.log")])
