"""The environment variables with which SLURM and torchrun tell a process its place among the processes of a run."""

import os

from lgx.errors import UserError

_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Variables that Lightning reads when it is imported, in its order."""
_PLACE = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
_REMEDY = "start lgx with srun, or unset the variables of SLURM"


def check_job() -> None:
    """Refuse variables of SLURM that contradict each other, as outside of srun; a run would wait without end."""
    variables = os.environ
    ignored = variables.get("SLURM_JOB_NAME") in ("bash", "interactive")  # as in Lightning
    if "SLURM_NTASKS" not in variables or ignored or "TORCHELASTIC_RUN_ID" in variables:
        return
    tasks = int(variables["SLURM_NTASKS"])
    for name in _PLACE:
        if name not in variables:
            raise UserError(f"SLURM_NTASKS is set, but {name} is not, as in a shell of salloc; {_REMEDY}")
    if tasks > 1 and "SLURM_NTASKS_PER_NODE" not in variables:
        raise UserError(f"SLURM_NTASKS={tasks} needs SLURM_NTASKS_PER_NODE: give --ntasks-per-node to srun or sbatch")
    if tasks > 1 and "SLURM_STEP_ID" not in variables:
        raise UserError(f"SLURM_NTASKS={tasks}, but srun did not start this process; start lgx with srun")


def rank() -> int:
    """Number of this process among the processes of the run; 0 if nothing states one."""
    return next((int(os.environ[name]) for name in _RANKS if name in os.environ), 0)


def job_rank() -> int:
    """Rank of this process in its SLURM job; 0 outside of jobs that lgx submitted."""
    return int(os.environ.get("SLURM_PROCID", 0)) if os.environ.get("SUBMITIT_EXECUTOR") == "slurm" else 0
