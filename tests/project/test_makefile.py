"""Targets of the Makefile."""

import os
import subprocess

from tests.support.paths import ROOT


def test_make_slurm_says_how_to_install_slurm():
    done = subprocess.run(
        ["make", "slurm-programs", "SLURM=no-such-program"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
    )
    assert done.returncode != 0
    assert done.stdout == "make slurm: no-such-program is missing; apt-get install slurm-wlm munge\n"
