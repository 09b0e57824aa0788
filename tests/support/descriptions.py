"""Change what learngene files say of themselves."""

import json
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file


def rewrite_description(path: Path, removed: tuple[str, ...] = (), **changes: object) -> None:
    """Remove keys from a learngene's description and set others."""
    with safe_open(path, framework="pt") as file:
        tensors, about = {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["lgx"])
    about = {key: value for key, value in about.items() if key not in removed} | changes
    save_file(tensors, path, metadata={"lgx": json.dumps(about)})
