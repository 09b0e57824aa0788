"""Take the pictures of the tutorials from a finished run of a family: ``python docs/screenshots.py RUN``.

It needs Chromium. ``report.png`` is the top of the run's report, and ``front.svg`` the run's own file.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURES = Path(__file__).parent / "pictures"
SIZE = "900,930"
COLORS = 64
"""A picture of text and lines has few, so the file stays small."""


def take(run: Path) -> None:
    """Write the pictures of a run.

    Args:
        run: Its folder.
    """
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        sys.exit("no Chromium is installed")
    with tempfile.TemporaryDirectory() as profile:
        shot = Path(profile) / "shot.png"
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}")
        page = (run / "report.html").resolve().as_uri()
        words = [program, *options, f"--window-size={SIZE}", f"--screenshot={shot}", page]
        subprocess.run(words, check=True, capture_output=True)
        Image.open(shot).convert("RGB").quantize(COLORS).save(PICTURES / "report.png", optimize=True)
    shutil.copy(run / "front.svg", PICTURES / "front.svg")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
