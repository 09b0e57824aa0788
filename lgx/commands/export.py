"""``lgx export``: write a trained network so that timm, transformers, onnxruntime or torch loads it without lgx."""

from typing import TYPE_CHECKING, Any

from lgx.errors import UserError

if TYPE_CHECKING:
    from torch import nn

    from lgx.architectures import Architecture
    from lgx.architectures.library_models import LibraryModel
    from lgx.artifacts.start_record import StartRecord

_WRITER = "lgx export"


def export(source: str, *, out: str, tokenizer: str | None = None, force: bool = False) -> None:
    """Write a trained network for use elsewhere: a timm or transformers folder, safetensors, ONNX or torch.export.

    ONNX files and programs of torch.export take batches of any size. They hold class names, normalization, image size
    and the origin of the run, and are compared with the network before they are moved to their place.

    Args:
        source: Folder of a run (its checkpoints/best.ckpt is read), a checkpoint (it holds averaged weights if the run
            averages them), a model folder, or a learngene file of a whole network.
        out: Folder, or file ending in .safetensors, .onnx or .pt2 (torch.export).
        tokenizer: Folder with GPT-2's encoder.json and vocab.bpe, or a name on the Hugging Face hub; the tokenizer is
            written beside a text model.
        force: Replace what another command or program wrote; what this command reads is never replaced.

    Raises:
        UserError: If the source is no ViT or GPT-2, cannot be read or written, the place is taken, or an ONNX file or
            a program gives other logits than the network.
    """
    from lgx.architectures import name_of
    from lgx.artifacts.checkpoints import best_of_run
    from lgx.artifacts.export import check_model_place
    from lgx.artifacts.export.about import About
    from lgx.artifacts.export.onnx_file import write_onnx
    from lgx.artifacts.export.program import write_pt2
    from lgx.artifacts.pretrained import load_pretrained
    from lgx.artifacts.source_names import path_of
    from lgx.artifacts.sources import resolve
    from lgx.results.model_facts import model_facts

    found = resolve(best_of_run(source))
    check_model_place(out, _WRITER, force, (source, path_of(found.place), tokenizer), tokenizer)
    network = load_pretrained(found.place)
    architecture = network.require_known("export")
    facts = model_facts(found)
    if out.endswith((".onnx", ".pt2")):
        write_program = write_onnx if out.endswith(".onnx") else write_pt2
        difference = write_program(out, network.model, About.of(network, architecture, facts))
        if difference is None:
            print("parity    not checked: onnxruntime is not installed; pip install 'lgx[export]'")
        else:
            print(f"parity    logits differ by at most {difference:.1e} from those of the network")
    else:
        names = network.label_names or None
        write(out, network.model, architecture, network.mean, network.std, names, facts, tokenizer, _WRITER)
    print(f"written   {out}: {name_of(architecture)}, {architecture.num_classes} classes")


def write(
    out: str,
    model: "nn.Module",
    architecture: "Architecture | LibraryModel",
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
    from lgx.architectures import GPT2Architecture, vit_only
    from lgx.architectures.library_models import LibraryModel
    from lgx.artifacts.export import write_descendant, write_text_descendant

    if isinstance(architecture, GPT2Architecture):
        from data_modules.tokens import load_tokenizer

        loaded = load_tokenizer(tokenizer, architecture.vocab_size, "--tokenizer") if tokenizer else None
        text_model: Any = model
        write_text_descendant(out, text_model, loaded, label_names, card, writer, record)
        return
    if tokenizer:
        raise UserError("--tokenizer: is for text models, but this one reads images; leave it out")
    ours = architecture if isinstance(architecture, LibraryModel) else vit_only(architecture, "export")
    write_descendant(out, model, ours, mean, std, label_names, card, writer, record)
