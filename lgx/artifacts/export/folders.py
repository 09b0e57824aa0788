"""Which folders an exported model may replace."""

from collections.abc import Collection
from pathlib import Path

from lgx.errors import UserError

WRITTEN = frozenset({"config.json", "model.safetensors", "pytorch_model.bin", "README.md"})
"""Files of every model folder."""


def refuse_foreign_folder(out: Path, further: Collection[str] = ()) -> None:
    """Refuse to replace a folder that holds anything but a model that lgx wrote.

    An existing folder is replaced as a whole. The current folder and its parents are refused, too.

    Args:
        out: The folder to write; it need not exist.
        further: Files that a model folder may hold beside those of every model.

    Raises:
        UserError: If the place is taken by something else.
    """
    if not out.exists():
        return
    names = {entry.name for entry in out.iterdir()} if out.is_dir() else {out.name}
    is_foreign = names - WRITTEN - {*further} or (names and "config.json" not in names)
    if is_foreign or out.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise UserError(f"{out}: exists and is no model folder that lgx wrote; choose another --out")
