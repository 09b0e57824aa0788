"""Results of measurements: tables, lines, and the file of ``--json``."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.outputs import check_file
from lgx.host.safety import read_json

Rows = list[dict[str, Any]]
"""One measurement each: what was measured, and the setting."""

_COMMON = ("size", "what", "seconds", "ratio", "peak_mb")
"""Keys of every row."""


def check_place(path: str | None, force: bool) -> None:
    """Refuse a file of another command or program, unless ``force`` is given.

    Raises:
        UserError: If there is one at ``path``.
    """
    if path:
        check_file(path, "lgx bench", _is_own, force=force, option="--json")


def _is_own(file: Path) -> bool:
    try:
        rows = read_json(file, "")
    except UserError:
        return False
    rows = rows if isinstance(rows, list) else []
    return bool(rows) and all(isinstance(row, dict) and {*_COMMON} <= row.keys() for row in rows)


def save(rows: Rows, path: str | None) -> None:
    """Write the rows as a JSON list, if there is a place for them."""
    if path:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def print_table(title: str, rows: Rows) -> None:
    """Print the rows as a table."""
    table = Table("size", Column("what", no_wrap=True), "seconds", "ratio", "peak MB", "more", title=title)
    for row in rows:
        cells = f"{row['seconds']:.4f}", f"{row['ratio']:.3f}", f"{row['peak_mb']:.0f}" if row["peak_mb"] else "-"
        table.add_row(row["size"], row["what"], *cells, _more(row))
    Console().print(table)


def _more(row: dict[str, Any]) -> str:
    """Values of a row that not all rows have."""
    own = {key: value for key, value in row.items() if key not in _COMMON}
    whole = ("_mb", "_per_s")
    return ", ".join(f"{k.removeprefix('share_')} {v:.{0 if k.endswith(whole) else 2}f}" for k, v in own.items())


def line(row: dict[str, Any]) -> str:
    """One measurement as a line."""
    setting = [str(row[key]) for key in ("suite", "size", "batch", "precision", "decoder") if key in row]
    values = row.get("failure") or f"{row['seconds']:.4f} s, ratio {row['ratio']:.3f}, {row['peak_mb']:.0f} MB"
    return " ".join([*setting, *(["compiled"] if row.get("compile") else []), row["what"], values])
