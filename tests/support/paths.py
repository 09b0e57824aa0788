"""Folders of the project, and of reference data that is not part of it."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"
SHARED = Path(os.environ.get("LGX_SHARED_DATA", ROOT.parent / "shared" / "data"))
GOLDEN = Path(os.environ.get("LGX_GOLDEN", ROOT.parent / "shared" / "golden"))
