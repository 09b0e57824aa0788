"""``lgx doctor``: what lgx finds on this machine."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "jsonargparse", "tensorboard", "webdataset")
MALICIOUS_LIGHTNING = ("2.6.2", "2.6.3")


def doctor() -> None:
    """Print versions, devices, and the cluster environment; say what would break, and how to mend it.

    Raises:
        SystemExit: With 1 if something would break.
    """
    import lgx

    problems: list[str] = []
    print(f"lgx            {lgx.__version__}\npython         {platform.python_version()}")
    for package in PACKAGES:
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "missing"
            problems.append(f"{package} is not installed: pip install {package}")
        print(f"{package:<15}{found}")
        if package == "lightning" and found in MALICIOUS_LIGHTNING:
            problems.append(
                f"lightning {found} was a malicious upload: remove it and change this machine's credentials"
            )
    try:
        import torch
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError) as error:
        problems.append(f"torch and torchvision do not belong together ({error}): install both in one pip command")
    else:
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        print(f"{'gpus':<15}{', '.join(gpus) or 'none; training runs on the CPU'}")
        print(f"{'cpu threads':<15}{torch.get_num_threads()} of {os.cpu_count()} cores")
        if gpus:
            print(f"{'precision':<15}bf16-mixed {'is' if torch.cuda.is_bf16_supported() else 'is NOT'} supported")
        print(f"{'cluster':<15}{_cluster()}")
    for problem in problems:
        print(f"PROBLEM        {problem}")
    if problems:
        raise SystemExit(1)
    print("no problem found")


def _cluster() -> str:
    from lightning.fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment

    if TorchElasticEnvironment.detect():
        return f"torchrun, {os.environ.get('WORLD_SIZE')} processes (no requeue under torchrun)"
    if SLURMEnvironment.detect():
        return f"SLURM job {os.environ.get('SLURM_JOB_ID')}, {os.environ.get('SLURM_NTASKS')} tasks"
    return "none; processes are started by lgx itself"
