"""``lgx arch``: print parameters and MACs of architectures."""

from jsonargparse.typing import PositiveInt


def arch(names: list[str], num_classes: PositiveInt | None = None) -> None:
    """Print parameters and MACs of architectures.

    MACs are the multiply-accumulates of the forward pass of one example, attention products included; the papers call
    them FLOPs. Shared parameters count once.

    Example: lgx arch 6-Small 12-Small

    Args:
        names: Names (6-Small, Des-B-12, Aux-B) or specifications (depth=6,embed_dim=384,num_heads=6,img_size=224).
        num_classes: Number of classes of the head; 1000 by default, 2 for a text model.
    """
    from lgx.architectures import parse_any_architecture
    from lgx.architectures.cost import cost_of
    from lgx.core.readable import aligned
    from lgx.initialization.sizing import amount

    rows = []
    for name in names:
        architecture = parse_any_architecture(name, **({} if num_classes is None else {"num_classes": num_classes}))
        cost = cost_of(architecture)
        rows.append((name, amount("params", cost.parameters), amount("macs", cost.macs)))
    print("\n".join(aligned([("architecture", "parameters", "MACs"), *rows], left=1)))
    print("\nMACs of the forward pass of one example, attention products included")
