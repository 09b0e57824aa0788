"""``lgx init``: a descendant from a learngene, as plain timm reads it."""


def init(
    *,
    arch: str,
    out: str,
    learngene: str | None = None,
    method: str | None = None,
    head: int | None = None,
    num_classes: int | None = None,
    seed: int = 0,
) -> None:
    """Write a descendant that plain timm loads.

    ``--out FOLDER`` holds config.json, model.safetensors and a model card, for
    ``timm.create_model("local-dir:FOLDER", pretrained=True)``; ``--out FILE.safetensors`` is the weights alone.

    Args:
        arch: The descendant: a name (6-Small) or a spec (depth=6,embed_dim=384,num_heads=6,img_size=224).
        out: Folder, or file ending in .safetensors.
        learngene: Learngene file, folder, checkpoint of a run, or timm model name. Without one the start is random.
        method: How to use it: sws, simple_lg, weight_selection, vanilla_lg, pretrained, random; by default what the
            learngene file says.
        head: Classes of a new, randomly started head, instead of the learngene's.
        num_classes: Classes of a random start; otherwise the learngene's or those of --head.
        seed: Seed of what is initialised at random.
    """
    import torch

    from lgx.architectures import parse_architecture
    from lgx.export import write_descendant
    from lgx.initializers import initialise, initializer_for
    from lgx.initializers.sources import origin_of

    initializer = initializer_for(learngene, method)
    origin = origin_of(initializer)
    classes = head or num_classes or origin.num_classes or 1000
    architecture = parse_architecture(arch, num_classes=classes)
    torch.manual_seed(seed)
    start = initialise(architecture, initializer, head="new" if head else "keep")
    print(f"method    {initializer.method}{f' from {learngene}' if learngene else ''}")
    print(f"built     {architecture.name}, {classes} classes")
    print(start.describe())
    write_descendant(
        out,
        start.model,
        architecture,
        mean=origin.mean,
        std=origin.std,
        label_names=None if head else origin.label_names,
        card={"method": initializer.method, "learngene": learngene, "seed": seed, "task": origin.task},
    )
    print(f"written   {out}")
