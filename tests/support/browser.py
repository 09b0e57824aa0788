"""Render pages in a headless browser."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


class Page(NamedTuple):
    """A rendered page.

    Attributes:
        dom: The document after its scripts have run.
        console: What scripts and failed loads have written to the console.
    """

    dom: str
    console: list[str]


def render(url: str, profile: Path, wait: float = 5, picture: Path | None = None) -> Page:
    """Open a page and wait.

    Args:
        url: Its address.
        profile: Folder for the browser's own files.
        wait: Seconds of virtual time.
        picture: PNG file for a screenshot.
    """
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={profile}"]
    options += [f"--virtual-time-budget={int(1000 * wait)}", "--window-size=1400,2000"]
    options += [f"--screenshot={picture}"] if picture else ["--dump-dom"]
    done = subprocess.run([CHROMIUM, *options, url], capture_output=True, text=True, timeout=120, check=True)
    return Page(done.stdout, re.findall(r"CONSOLE:\d+\] (.*)", done.stderr))
