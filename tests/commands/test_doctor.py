"""``lgx doctor`` reports the machine, its problems and hints."""

import pytest

from tests.support.command_line import lgx, ok


def test_this_machine_has_no_problem():
    result = ok(lgx("doctor"))
    assert "torch" in result.out
    assert "no problem found" in result.out


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "16", "SLURM_JOB_NUM_NODES": "2"}, "SLURM job 7, 16 tasks on 2 node(s)"),
        ({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, "torchrun, 8 processes, 4 of them"),
        ({"SLURM_NTASKS": "1", "SLURM_JOB_NAME": "bash"}, "named bash or interactive"),
        ({"NCCL_IB_DISABLE": "1"}, "several GPUs will be slow"),
    ],
)
def test_the_cluster_and_hints_are_reported(monkeypatch, variables, words):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert words in lgx("doctor").out
