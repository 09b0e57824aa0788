"""``lgx config``: print the configurations that ship with lgx, for use outside a clone."""

from pathlib import Path

from lgx.errors import UserError

FOLDER = Path(__file__).parents[1] / "configs"


def config(name: str) -> None:
    """Print a configuration that ships with lgx. Save it in a file and edit it.

    Example: lgx config own_images > mine.yaml

    Args:
        name: own_images fine-tunes one network, for example what `lgx init` wrote, on images in class folders. family
            trains finished networks of every size on them. backbones trains encoders of every size, and nested starts
            of every size, on images without labels.
    """
    files = {file.stem: file for file in FOLDER.glob("*.yaml")}
    if name not in files:
        raise UserError(f"{name}: no such configuration; there are {', '.join(sorted(files))}")
    print(files[name].read_text(encoding="utf-8"), end="")
