"""``lgx arch``: what architectures cost."""

import json as json_module


def arch(names: list[str], num_classes: int = 1000, json: bool = False) -> None:
    """Print parameters and MACs of architectures.

    MACs are multiply-accumulates of one image's forward pass, attention products included: what the papers call
    FLOPs. Layers that share weights count their parameters once.

    Args:
        names: Names (6-Small, Des-B-12, Aux-B) or specs (depth=6,embed_dim=384,num_heads=6,img_size=224).
        num_classes: Classes of the head.
        json: Print a JSON list instead of a table.
    """
    from lgx.architectures import parse_architecture

    rows = []
    for name in names:
        architecture = parse_architecture(name, num_classes=num_classes)
        rows.append(
            {
                "name": name,
                "parameters": architecture.count_parameters(),
                "macs": architecture.count_macs(),
                **architecture.to_dict(),
            }
        )
    if json:
        print(json_module.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("architecture", "parameters (M)", "MACs (G)", "depth", "embed_dim", "num_heads", "stages")
    for row in rows:
        table.add_row(
            str(row["name"]),
            f"{row['parameters'] / 1e6:.2f}",
            f"{row['macs'] / 1e9:.2f}",
            *(str(row[key] or "") for key in ("depth", "embed_dim", "num_heads", "stages")),
        )
    Console().print(table)
