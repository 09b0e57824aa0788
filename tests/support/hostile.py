"""An object that runs code when it is unpickled."""

from pathlib import Path
from typing import Any


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, evidence: Path) -> None:
        self.evidence = evidence

    def __reduce__(self) -> Any:
        return open, (str(self.evidence), "w")
