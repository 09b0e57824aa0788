"""The environment variables with which SLURM and torchrun tell a process its place among the processes of a run."""

import os

from lgx.errors import UserError

_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Variables that Lightning reads when it is imported, in its order."""


def check_job() -> None:
    """Refuse variables of SLURM outside of srun, as in a shell of salloc; a run would wait without end."""
    ignored = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")  # as in Lightning
    if "SLURM_NTASKS" not in os.environ or ignored or "TORCHELASTIC_RUN_ID" in os.environ:
        return
    tasks = int(os.environ["SLURM_NTASKS"])
    if "SLURM_PROCID" not in os.environ or (tasks > 1 and "SLURM_STEP_ID" not in os.environ):
        raise UserError(
            f"SLURM_NTASKS={tasks} is set, but srun did not start this process; start lgx with srun, or unset the "
            "variables of SLURM"
        )


def rank() -> int:
    """Number of this process among the processes of the run; 0 if nothing states one."""
    return next((int(os.environ[name]) for name in _RANKS if name in os.environ), 0)


def job_rank() -> int:
    """Rank of this process in its SLURM job; 0 outside of jobs that lgx submitted."""
    return int(os.environ.get("SLURM_PROCID", 0)) if os.environ.get("SUBMITIT_EXECUTOR") == "slurm" else 0
