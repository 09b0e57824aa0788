"""``lgx doctor``: checks of the installation and the machine."""

import os
import shutil
from importlib.metadata import version
from pathlib import Path

MIN_SHARED_MEMORY = 1 << 30
"""Bytes of free shared memory below which doctor prints a hint."""


def doctor() -> None:
    """Print what torch collects about this environment, the cluster, and the solution of each problem found.

    A PROBLEM prevents training, and the exit status is 1. A hint names a setting that often causes errors or slow
    training.

    Raises:
        SystemExit: With status 1 if there is a problem.
    """
    from lightning.fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment
    from torch.utils.collect_env import get_pretty_env_info

    from lgx.core.version import __version__

    print(f"lgx {__version__}, lightning {version('lightning')}, timm {version('timm')}\n{get_pretty_env_info()}\n")
    clusters = {"torchrun": TorchElasticEnvironment.detect(), "SLURM": SLURMEnvironment.detect()}
    print(f"cluster: {', '.join(name for name, is_present in clusters.items() if is_present) or 'none'}")
    for hint in hints():
        print(f"hint: {hint}")
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError) as error:
        print(f"PROBLEM: torch and torchvision do not fit together ({error}): install both in one pip command")
        raise SystemExit(1) from error
    print("no problem found")


def hints() -> list[str]:
    """Settings that often cause errors or slow training, each with a remedy."""
    hints = []
    shared = Path("/dev/shm")
    if shared.is_dir() and (free := shutil.disk_usage(shared).free) < MIN_SHARED_MEMORY:
        hints.append(
            f"/dev/shm has only {free >> 20} MiB free, and data loading processes and NCCL use it: start the container "
            f"with more (docker run --shm-size 8g), or set data.num_workers to 0"
        )
    if os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        hints.append(
            "Lightning ignores SLURM in jobs named bash or interactive: give the job another name, or use srun"
        )
    return hints
