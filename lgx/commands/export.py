"""``lgx export``: the network of a trained run, as plain timm reads it."""


def export(checkpoint: str, *, out: str) -> None:
    """Write the network of a checkpoint as a timm folder or a safetensors file.

    Args:
        checkpoint: A run's ``checkpoints/best.ckpt`` (averaged weights where the run averaged them), or a learngene
            file of a whole network.
        out: Folder, or file ending in .safetensors.
    """
    from pathlib import Path

    from timm.models.vision_transformer import VisionTransformer

    from lgx.errors import UserError
    from lgx.export import write_descendant
    from lgx.sources import load_source

    source = load_source(checkpoint)
    architecture = source.require_vit("export")
    if not isinstance(source.model, VisionTransformer):
        raise UserError(f"{checkpoint}: export needs a ViT, got {type(source.model).__name__}")
    facts = {"source": Path(checkpoint).name}
    write_descendant(out, source.model, architecture, mean=source.mean, std=source.std, card=facts)
    print(f"written   {out}: {architecture.name}, {architecture.num_classes} classes")
