"""``lgx arch``: print parameters and MACs of architectures."""

import json as json_module
from collections.abc import Mapping, Sequence
from typing import Any, Literal

_CAPTIONS = {
    "whole": "MACs of the forward pass of one example, attention products included",
    "modules": "as LSAMD counts: without position embedding, class token and attention products",
}


def arch(
    names: list[str],
    num_classes: int | None = None,
    count: Literal["whole", "modules"] = "whole",
    json: bool = False,
) -> None:
    """Print parameters and MACs of architectures.

    MACs are the multiply-accumulates of the forward pass of one example, which the papers call FLOPs. Parameters of
    layers that share weights count once.

    Args:
        names: Names (6-Small, Des-B-12, Aux-B) or specifications (depth=6,embed_dim=384,num_heads=6,img_size=224).
        num_classes: Number of classes of the head; 1000 by default, 2 for a text model.
        count: whole counts everything. modules counts as in LSAMD's Table 2, without position embedding, class token
            and attention products.
        json: Print a JSON list instead of a table.

    Raises:
        UserError: If a name or specification is wrong, or modules is asked for a text model.
    """
    from lgx.architectures import parse_any_architecture
    from lgx.architectures.cost import cost_of

    rows = []
    for name in names:
        architecture = parse_any_architecture(name, **({} if num_classes is None else {"num_classes": num_classes}))
        rows.append({"name": name, **cost_of(architecture, count)._asdict(), **architecture.to_dict()})
    if json:
        print(json_module.dumps(rows, indent=2))
        return
    _print_table(rows, _CAPTIONS[count])


def _print_table(rows: Sequence[Mapping[str, Any]], caption: str) -> None:
    """Print the rows for a terminal of any width; specifications without what all of them have in common.

    A column of a size is left out where all names state that size.
    """
    from lgx.results.architecture_names import short_names
    from lgx.results.report import Cell, Table
    from lgx.results.terminal import print_tables

    short, common = short_names(list(dict.fromkeys(row["name"] for row in rows)))
    keys = ("depth", "embed_dim", "num_heads", "stages")
    sizes = [key for key in keys if any(_size(row, key) for row in rows)]
    lines = tuple(
        (
            short[row["name"]],
            tuple(
                Cell(text)
                for text in (
                    _amount(row["parameters"]),
                    _amount(row["macs"]),
                    *(_size(row, key, always=True) for key in sizes),
                )
            ),
        )
        for row in rows
    )
    below = "; ".join(part for part in (common, caption) if part)
    print_tables(Table("", ("parameters", "MACs", *sizes), lines, below, "architecture"))


def _size(row: Mapping[str, Any], key: str, always: bool = False) -> str:
    """A size as specifications write it; empty where the name states it, unless ``always``."""
    value = row.get(key)
    if not value or (f"{key}=" in row["name"] and not always):
        return ""
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _amount(number: float) -> str:
    """A count in a unit that fits: ``36.95 M``."""
    for unit in ("", " k", " M", " G"):
        if number < 1000:
            return f"{number:.2f}{unit}" if unit else f"{number:g}"
        number /= 1000
    return f"{number:.2f} T"
