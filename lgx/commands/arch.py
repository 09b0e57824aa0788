"""``lgx arch``: print parameters and MACs of architectures."""

import json as json_module

from jsonargparse.typing import PositiveInt


def arch(names: list[str], num_classes: PositiveInt | None = None, json: bool = False) -> None:
    """Print parameters and MACs of architectures.

    MACs are the multiply-accumulates of the forward pass of one example, attention products included; the papers call
    them FLOPs. Shared parameters count once.

    Example: lgx arch 6-Small 12-Small

    Args:
        names: Names (6-Small, Des-B-12, Aux-B) or specifications (depth=6,embed_dim=384,num_heads=6,img_size=224).
        num_classes: Number of classes of the head; 1000 by default, 2 for a text model.
        json: Print a JSON list with all values instead of a table.
    """
    from lgx.architectures import parse_any_architecture
    from lgx.architectures.cost import cost_of
    from lgx.core.readable import aligned
    from lgx.initialization.sizing import amount

    rows = []
    for name in names:
        architecture = parse_any_architecture(name, **({} if num_classes is None else {"num_classes": num_classes}))
        rows.append({"name": name, **cost_of(architecture)._asdict(), **architecture.to_dict()})
    if json:
        print(json_module.dumps(rows, indent=2))
        return
    lines = [(row["name"], amount("params", row["parameters"]), amount("macs", row["macs"])) for row in rows]
    print("\n".join(aligned([("architecture", "parameters", "MACs"), *lines], left=1)))
    print("\nMACs of the forward pass of one example, attention products included")
