"""``lgx export``: the network of a trained run, as plain timm or transformers reads it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from lgx.architectures import Architecture
    from lgx.architectures.zoo import ZooModel


def export(checkpoint: str, *, out: str, tokenizer: str | None = None) -> None:
    """Write the network of a checkpoint as a timm or transformers folder or a safetensors file.

    Args:
        checkpoint: A run's ``checkpoints/best.ckpt`` (averaged weights where the run averaged them), or a learngene
            file of a whole network.
        out: Folder, or file ending in .safetensors.
        tokenizer: Folder with GPT-2's encoder.json and vocab.bpe, or a name on the Hugging Face hub: write the
            tokenizer beside a text model.
    """
    from pathlib import Path

    from timm.models.vision_transformer import VisionTransformer

    from lgx.architectures import ViTArchitecture, name_of
    from lgx.artifacts.pretrained import load_pretrained
    from lgx.errors import UserError

    source = load_pretrained(checkpoint)
    architecture = source.require_known("export")
    if isinstance(architecture, ViTArchitecture) and not isinstance(source.model, VisionTransformer):
        raise UserError(f"{checkpoint}: export needs a ViT, got {type(source.model).__name__}")
    facts = {"source": Path(checkpoint).name}
    write(out, source.model, architecture, source.mean, source.std, card=facts, tokenizer=tokenizer)
    print(f"written   {out}: {name_of(architecture)}, {architecture.num_classes} classes")


def write(
    out: str,
    model: "nn.Module",
    architecture: "Architecture | ZooModel",
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    label_names: tuple[str, ...] | None = None,
    card: dict[str, Any] | None = None,
    tokenizer: str | None = None,
) -> None:
    """Write a model as its own library reads it.

    Args:
        out: Folder, or file ending in .safetensors.
        model: The model.
        architecture: Its description.
        mean: Per-channel mean of an image model's inputs.
        std: Per-channel standard deviation of an image model's inputs.
        label_names: Class names in index order.
        card: Facts for the model card.
        tokenizer: Where a text model's tokenizer is, to be written beside it.

    Raises:
        UserError: If the tokenizer cannot be read or is of another vocabulary, or there is no place for one; or if the
            file would pass for a learngene.
    """
    from lgx.architectures import GPT2Architecture, name_of, vit_only
    from lgx.architectures.zoo import ZooModel
    from lgx.artifacts.export import write_descendant
    from lgx.artifacts.learngene import SUFFIX
    from lgx.errors import UserError

    if out.endswith(SUFFIX):
        raise UserError(f"--out {out}: *{SUFFIX} is what learngenes are called; name a folder, or a file without it")
    if isinstance(architecture, GPT2Architecture):
        from data_modules.tokens import load_tokenizer
        from lgx.artifacts.export_gpt2 import write_text_descendant

        if tokenizer and out.endswith(".safetensors"):
            raise UserError(f"--tokenizer: goes into a folder, but --out {out} is a file; give a folder")
        loaded = load_tokenizer(tokenizer, architecture.vocab_size, "--tokenizer") if tokenizer else None
        text_model: Any = model
        write_text_descendant(out, text_model, loaded, label_names, card)
        return
    if tokenizer:
        name = architecture.name if isinstance(architecture, ZooModel) else name_of(architecture)
        raise UserError(f"--tokenizer: belongs to a text model, but {name} reads images; leave it out")
    ours = architecture if isinstance(architecture, ZooModel) else vit_only(architecture, "export")
    write_descendant(out, model, ours, mean, std, label_names, card)
