"""Wrong variables of SLURM and torchrun, and the messages of several processes."""

import os
import sys
from unittest.mock import Mock

import pytest

from lgx.cli import main
from lgx.host import launcher
from tests.support.command_line import lgx

WITHIN = {"SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}


@pytest.fixture
def variables(monkeypatch):
    """Set variables; those of a launcher that runs the tests are removed."""
    for name in list(os.environ):
        if name.startswith("SLURM_"):
            monkeypatch.delenv(name)

    def set_all(**values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return set_all


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"SLURM_NTASKS": "1"}, "srun did not start this process"),
        (WITHIN | {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2"}, "srun did not start this process"),
    ],
)
def test_variables_that_contradict_each_other_are_explained(variables, values, words):
    variables(**values)
    result = lgx("fit")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert words in result.sentence


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"},  # a batch script without --ntasks
        WITHIN,
        WITHIN | {"SLURM_NTASKS": "8", "TORCHELASTIC_RUN_ID": "none"},
        WITHIN | {"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_NTASKS_PER_NODE": "2", "SLURM_STEP_ID": "0"},
    ],
)
def test_complete_variables_are_accepted(variables, values):
    variables(**values)
    launcher.check_job()


def test_the_rank_in_a_job_counts_only_in_jobs_that_lgx_submitted(variables):
    variables(SLURM_PROCID="3")
    assert launcher.job_rank() == 0
    variables(SUBMITIT_EXECUTOR="slurm")
    assert launcher.job_rank() == 3


def test_an_error_is_one_write_with_its_newline_and_names_the_process(variables, monkeypatch):
    for rank, name in (("0", ""), ("1", " (process 1)")):
        variables(SLURM_PROCID=rank)
        stream = Mock()
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(SystemExit):
            main(["oops"])
        stream.write.assert_called_once_with(f"lgx oops{name}: unknown command 'oops'; see lgx --help\n")
