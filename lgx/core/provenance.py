"""Provenance of a measured value: the code, the configuration and the machine."""

import hashlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

from lgx.core.version import __version__


@cache
def commit() -> str:
    """Commit of the running code, with a ``+`` if files differ from it; the version of lgx without git."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():  # installed somewhere below another project's repository
        return f"lgx {__version__}"
    try:
        head = _git(root, "rev-parse", "--short=10", "HEAD").strip()
        changed = _git(root, "status", "--porcelain", "--", "lgx", "data_modules", "experiments/*.yaml")
    except (OSError, subprocess.SubprocessError):
        return f"lgx {__version__}"
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    # Without locks: a run that is killed must not leave one in the repository.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8", timeout=10).stdout


def config_hash(text: str) -> str:
    """First 12 digits of the SHA-256 of a configuration without its comments."""
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


def hardware(on_gpu: bool) -> str:
    """Name of the device: ``NVIDIA H100`` or ``2 x x86_64 CPU cores``."""
    import torch

    return torch.cuda.get_device_name() if on_gpu else f"{os.cpu_count()} x {platform.machine()} CPU cores"
