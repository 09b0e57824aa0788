"""``lgx init``: a descendant from a learngene, as plain timm or transformers reads it."""

from typing import Any, Literal


def init(
    *,
    arch: str,
    out: str,
    learngene: str | None = None,
    method: str | None = None,
    head: int | None = None,
    num_classes: int | None = None,
    strategy: Literal["cyclic", "random_assigned"] | None = None,
    order: Literal["front_mid_last", "front_last_mid"] | None = None,
    priority: str | None = None,
    repeat: Literal["neighbor", "cyclic"] | None = None,
    layers: int | None = None,
    position: Literal["front", "back"] | None = None,
    config: str | None = None,
    task: str | None = None,
    task_embeddings: str | None = None,
    noise: float | None = None,
    tokenizer: str | None = None,
    seed: int = 0,
) -> None:
    """Write a descendant that plain timm, or of text transformers, loads.

    ``--out FOLDER`` holds config.json, model.safetensors and a model card, for
    ``timm.create_model("local-dir:FOLDER", pretrained=True)``, or of a text model for
    ``AutoModelForSequenceClassification.from_pretrained("FOLDER")``; ``--out FILE.safetensors`` is the weights alone.

    A hypernetwork (ghn3, logah, tal) also starts models of timm and torchvision. Batch norm's means and variances are
    not predicted: re-estimate them on data before such a model is used untrained.

    Args:
        arch: The descendant: a name (6-Small), a spec (depth=6,embed_dim=384,num_heads=6,img_size=224), or a model of
            timm or torchvision (timm:resnet34; timm:resnet34,img_size=64,in_chans=1; torchvision:resnet34). For text
            a name (6-GPT2) or a spec (gpt2:depth=6,embed_dim=384,num_heads=6,max_len=128).
        out: Folder, or file ending in .safetensors.
        learngene: Learngene file, folder, checkpoint of a run, or timm model name. Without one the start is random.
        method: How to use it: sws, simple_lg, mini_deit, tleg, lsamd, weight_selection, vanilla_lg, pretrained, ghn3,
            logah, tal, random; by default what the learngene file says.
        head: Classes of a new, randomly started head, instead of the learngene's.
        num_classes: Classes of a random start or a predicted head; by default the learngene's, or those of --task.
        strategy: How sws, simple_lg and mini_deit expand.
        order: Which stage grows first under cyclic: order1 or order2 of SWS's Table 4.
        priority: Which stages of an lsamd learngene grow, in the order in which they do: some of first, middle and
            last, joined by _; last_middle_first by default.
        repeat: Whether such a stage grows by its last layer (neighbor, the default) or by its layers in order.
        layers: How many of the ancestor's last layers vanilla_lg takes.
        position: Where vanilla_lg puts them.
        config: JSON file with a hypernetwork's configuration, for weights that do not store it (official checkpoints).
        task: Which of its tasks a task-aware hypernetwork (tal) shall predict for; gives the number of classes too.
        task_embeddings: File of `lgx embed` with an embedding of a task that the learngene was not tuned on.
        noise: Share of a predicted matrix's own standard deviation that is added as Gaussian noise, to tell tiled and
            alike neurons apart.
        tokenizer: Folder with GPT-2's encoder.json and vocab.bpe, or a name on the Hugging Face hub: write the
            tokenizer beside a text model.
        seed: Seed of what is initialized at random.
    """
    import torch

    from lgx.architectures import Architecture, name_of, parse_for
    from lgx.architectures.zoo import ZooModel, names_zoo, parse_zoo_model
    from lgx.artifacts.export import check_place
    from lgx.commands.export import write
    from lgx.errors import UserError
    from lgx.initialization import initialize, initialize_zoo
    from lgx.methods.initializers import initializer_for

    for option, count in (("head", head), ("num_classes", num_classes)):
        if count is not None and count < 1:
            raise UserError(f"--{option}: a head needs at least 1 class, got {count}")
    options: dict[str, Any] = {"strategy": strategy, "order": order, "layers": layers, "position": position}
    options |= {"priority": priority, "repeat": repeat}
    options |= {"config": config, "noise": noise, "task": task, "task_embeddings": task_embeddings}
    if noise is not None or strategy == "random_assigned":
        options["seed"] = seed
    initializer = initializer_for(learngene, method, **options)
    origin = initializer.origin()
    if not (head or num_classes) and origin.num_classes == 0:
        raise UserError(
            f"--task {task}: its embedding was made of bare images; give its number of classes (--num_classes)"
        )
    classes = head or num_classes or origin.num_classes
    architecture: Architecture | ZooModel
    torch.manual_seed(seed)
    if names_zoo(arch):
        architecture = parse_zoo_model(arch, classes or 1000)
        check_place(out, architecture)
        start = initialize_zoo(architecture, initializer, head="new" if head else "keep")
    else:
        architecture = parse_for(arch, origin.kind, classes)
        start = initialize(architecture, initializer, head="new" if head else "keep")
    print(f"method    {initializer.method}{f' from {learngene}' if learngene else ''}")
    name = architecture.name if isinstance(architecture, ZooModel) else name_of(architecture)
    print(f"built     {name}, {architecture.num_classes} classes")
    print(start.describe())
    write(
        out,
        start.model,
        architecture,
        mean=origin.mean,
        std=origin.std,
        label_names=None if head else origin.label_names,
        card={"method": initializer.method, "learngene": learngene, "seed": seed, "task": origin.task},
        tokenizer=tokenizer,
    )
    print(f"written   {out}")
