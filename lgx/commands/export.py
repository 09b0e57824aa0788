"""``lgx export``: write a trained network so that plain timm or transformers loads it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from lgx.architectures import Architecture
    from lgx.architectures.zoo import ZooModel
    from lgx.artifacts.start_record import StartRecord


def export(source: str, *, out: str, tokenizer: str | None = None, force: bool = False) -> None:
    """Write a trained network as a timm or transformers folder or as a safetensors file.

    Args:
        source: checkpoints/best.ckpt of a run (it holds averaged weights if the run averages them), or a learngene
            file of a whole network.
        out: Folder, or file ending in .safetensors.
        tokenizer: Folder with GPT-2's encoder.json and vocab.bpe, or a name on the Hugging Face hub; the tokenizer is
            written beside a text model.
        force: Replace what another command or program wrote; what this command reads is never replaced.

    Raises:
        UserError: If the source is no ViT or GPT-2, cannot be read or written, or the place is taken.
    """
    from lgx.architectures import name_of
    from lgx.artifacts.pretrained import load_pretrained
    from lgx.results.model_facts import model_facts

    check_place_of_model(out, "lgx export", force, (source, tokenizer))
    network = load_pretrained(source)
    architecture = network.require_known("export")
    write(
        out,
        network.model,
        architecture,
        network.mean,
        network.std,
        network.label_names or None,
        card=model_facts(source),
        tokenizer=tokenizer,
        writer="lgx export",
    )
    print(f"written   {out}: {name_of(architecture)}, {architecture.num_classes} classes")


def check_place_of_model(out: str, writer: str, force: bool, reads: Iterable[str | None]) -> None:
    """Refuse a place for a model before anything is computed.

    Args:
        out: Folder, or file ending in .safetensors.
        writer: The command.
        force: Whether what others wrote may be replaced.
        reads: What the command reads.

    Raises:
        UserError: If the place is taken, or the file has the suffix of a learngene.
    """
    from lgx.artifacts.export import check_model_place
    from lgx.artifacts.learngene import SUFFIX
    from lgx.errors import UserError

    if out.endswith(SUFFIX):
        raise UserError(f"--out {out}: {SUFFIX} is the suffix of learngenes; give a folder or another suffix")
    check_model_place(out, writer, force, reads)


def write(
    out: str,
    model: "nn.Module",
    architecture: "Architecture | ZooModel",
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    label_names: tuple[str, ...] | None = None,
    card: dict[str, Any] | None = None,
    tokenizer: str | None = None,
    writer: str = "lgx",
    record: "StartRecord | None" = None,
) -> None:
    """Write a model in the format of its own library.

    Args:
        out: Folder, or file ending in .safetensors.
        model: The model.
        architecture: Its description.
        mean: Per-channel mean of an image model's inputs.
        std: Per-channel standard deviation of an image model's inputs.
        label_names: Class names in index order.
        card: Facts for the model card.
        tokenizer: Folder or name of a text model's tokenizer, which is written beside the model.
        writer: The command that writes the model.
        record: What started the model.

    Raises:
        UserError: If the tokenizer cannot be read, has another vocabulary, or cannot be written beside the model.
    """
    from lgx.architectures import GPT2Architecture, name_of, vit_only
    from lgx.architectures.zoo import ZooModel
    from lgx.artifacts.export import write_descendant
    from lgx.errors import UserError

    if isinstance(architecture, GPT2Architecture):
        from data_modules.tokens import load_tokenizer
        from lgx.artifacts.export import write_text_descendant

        if tokenizer and out.endswith(".safetensors"):
            raise UserError(f"--tokenizer: is written into a folder, but --out {out} is a file; give a folder")
        loaded = load_tokenizer(tokenizer, architecture.vocab_size, "--tokenizer") if tokenizer else None
        text_model: Any = model
        write_text_descendant(out, text_model, loaded, label_names, card, writer, record)
        return
    if tokenizer:
        name = architecture.name if isinstance(architecture, ZooModel) else name_of(architecture)
        raise UserError(f"--tokenizer: is for text models, but {name} reads images; leave it out")
    ours = architecture if isinstance(architecture, ZooModel) else vit_only(architecture, "export")
    write_descendant(out, model, ours, mean, std, label_names, card, writer, record)
