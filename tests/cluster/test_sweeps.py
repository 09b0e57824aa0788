"""A sweep on a real SLURM cluster ends with the bits of a sweep without SLURM, whatever happens to its jobs."""

import pytest

from tests.support.command_line import wait_until
from tests.support.forks import is_locked
from tests.support.slurm_sweeps import STEPS, outcome

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]


def assert_resumed(sweep, steps):
    """The first run was resumed after these steps, and did not start anew."""
    starts = (sweep.runs_dir / "s/a/seed0/starts").read_text().split()
    assert 0 < steps < STEPS
    assert starts == ["0", str(steps)], starts


def test_runs_that_need_others_start_after_them(start_sweep, undisturbed):
    sweep = start_sweep(seconds=0)
    assert sweep.wait() == 0, sweep.printed
    assert sweep.printed.index("finished   a seed 0") < sweep.printed.index("started    f seed 0")
    assert outcome(sweep.runs_dir) == undisturbed
    sweep.start()
    assert sweep.wait() == 0
    assert "0 of 2 runs to do" in sweep.printed


def test_a_preempted_run_is_requeued_and_resumed(start_sweep, cluster, undisturbed):
    sweep = start_sweep()
    job = sweep.job_in_training()
    cluster.tell("sbatch", "-p", "high", "-N", "2", "-o", "/dev/null", "--wrap", "sleep 3")
    cluster.restart_now(job)
    steps = sweep.saved()
    assert sweep.wait() == 0, sweep.printed
    assert "failed" not in sweep.printed
    assert_resumed(sweep, steps)
    assert outcome(sweep.runs_dir) == undisturbed


def test_a_cancelled_job_is_reported_and_the_same_command_resumes_it(start_sweep, cluster, undisturbed):
    sweep = start_sweep()
    cluster.tell("scancel", sweep.job_in_training())
    assert sweep.wait() == 2
    assert "lgx sweep: 1 of 2 runs failed: a seed 0 (SLURM reports CANCELLED; log " in sweep.printed
    assert "1 run(s) that need them were skipped; the same command runs the missing runs" in sweep.printed
    assert "Traceback" not in sweep.printed
    steps = sweep.saved()
    sweep.seconds = 0
    sweep.start()
    assert sweep.wait() == 0, sweep.printed
    assert_resumed(sweep, steps)
    assert outcome(sweep.runs_dir) == undisturbed


def test_a_run_on_a_node_that_goes_down_resumes_on_another(start_sweep, cluster, undisturbed):
    sweep = start_sweep()
    job = sweep.job_in_training()
    node = cluster.detail(job, "NodeList")
    cluster.tell("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    wait_until(lambda: not is_locked(sweep.checkpoint.parents[1]), 60, "the run on the node ends")
    cluster.restart_now(job)
    steps = sweep.saved()
    assert sweep.wait() == 0, sweep.printed
    assert_resumed(sweep, steps)
    assert cluster.detail(job, "NodeList") != node
    assert outcome(sweep.runs_dir) == undisturbed


def test_a_sweep_survives_a_restart_of_the_controller(start_sweep, cluster, undisturbed):
    """While the controller is away, the first run ends, and the sweep cannot submit the second."""
    sweep = start_sweep()
    sweep.job_in_training()
    cluster.kill_controller()
    wait_until((sweep.runs_dir / "all.csv").exists, 120, "the first run ends without a controller")
    wait_until(lambda: "started    f seed 0" in sweep.printed, 20, "the sweep wants to start the second run")
    cluster.start_controller()
    assert sweep.wait() == 0, sweep.printed
    assert "failed" not in sweep.printed
    assert outcome(sweep.runs_dir) == undisturbed


def test_a_run_whose_time_ends_is_requeued_and_resumed(start_sweep, cluster, undisturbed):
    """SLURM looks at time limits every half minute; the signal comes before the limit of one minute."""
    sweep = start_sweep(seconds=2, timeout_min=1, signal_delay_s=45)
    job = sweep.job_in_training()
    cluster.restart_now(job, seconds=120)
    steps = sweep.saved()
    cluster.tell("scontrol", "update", f"jobid={job}", "timelimit=10")
    assert sweep.wait() == 0, sweep.printed
    assert "failed" not in sweep.printed
    assert_resumed(sweep, steps)
    assert outcome(sweep.runs_dir) == undisturbed
