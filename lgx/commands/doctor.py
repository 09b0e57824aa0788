"""``lgx doctor``: checks of the installation and the machine."""

import os
import platform
import resource
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lgx.host.signals import requeue_signal

PACKAGES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "jsonargparse", "tensorboard", "webdataset")
MIN_SHARED_MEMORY = 1 << 30
"""Bytes of free shared memory below which doctor prints a hint."""
MIN_OPEN_FILES = 4096
"""Limit of open files below which doctor prints a hint."""


def doctor() -> None:
    """Print versions, devices and the cluster environment, and the solution of each problem found.

    A PROBLEM prevents training, and the exit status is 1. A hint names a setting that often causes errors or slow
    training.

    Raises:
        SystemExit: With status 1 if there is a problem.
    """
    from lgx.core.version import __version__

    problems: list[str] = []
    print(f"lgx            {__version__}\npython         {platform.python_version()}")
    for package in PACKAGES:
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "missing"
            problems.append(f"{package} is not installed: pip install {package}")
        print(f"{package:<15}{found}")
    try:
        import torch
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError) as error:
        problems.append(f"torch and torchvision do not fit together ({error}): install both in one pip command")
    else:
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        print(f"{'gpus':<15}{', '.join(gpus) or 'none; training runs on the CPU'}")
        print(f"{'cpu threads':<15}{torch.get_num_threads()} of {os.cpu_count()} cores")
        print(f"{'precision':<15}{_precision(bool(gpus))}")
        print(f"{'cluster':<15}{_cluster()}")
    for hint in _hints():
        print(f"{'hint':<15}{hint}")
    for problem in problems:
        print(f"PROBLEM        {problem}")
    if problems:
        raise SystemExit(1)
    print("no problem found")


def _precision(gpu: bool) -> str:
    import torch

    if not gpu:
        return "32-true by default"
    if torch.cuda.is_bf16_supported():
        return "bf16-mixed by default"
    return "bf16-mixed by default, which this GPU does NOT support; set trainer.precision to 16-mixed"


def _cluster() -> str:
    from lightning.fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment

    variables = os.environ
    if TorchElasticEnvironment.detect():
        inside = " within SLURM" if SLURMEnvironment.detect() else ""
        return (
            f"torchrun{inside}, {variables.get('WORLD_SIZE')} processes, {variables.get('LOCAL_WORLD_SIZE')} of them "
            f"on this node; torchrun does not requeue preempted jobs"
        )
    if SLURMEnvironment.detect():
        return (
            f"SLURM job {variables.get('SLURM_JOB_ID')}, {variables.get('SLURM_NTASKS')} tasks on "
            f"{variables.get('SLURM_JOB_NUM_NODES', '?')} node(s); requeued after {requeue_signal().name}"
        )
    return "none; lgx starts the processes itself"


def _hints() -> list[str]:
    """Settings that often cause errors or slow training, each with a remedy."""
    hints = []
    shared = Path("/dev/shm")
    if shared.is_dir() and (free := shutil.disk_usage(shared).free) < MIN_SHARED_MEMORY:
        hints.append(
            f"/dev/shm has only {free >> 20} MiB free, and data loading processes and NCCL use it: start the container "
            f"with more (docker run --shm-size 8g), or set data.num_workers to 0"
        )
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < MIN_OPEN_FILES:
        hints.append(
            f"the limit of open files is {files}, and many data loading processes need more: ulimit -n {MIN_OPEN_FILES}"
        )
    if os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        hints.append(
            "Lightning ignores SLURM in jobs named bash or interactive: give the job another name, or use srun"
        )
    return hints
