"""``lgx export``: write a trained network so that timm, transformers, onnxruntime or torch loads it without lgx."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn

    from lgx.architectures import Architecture
    from lgx.architectures.zoo import ZooModel
    from lgx.artifacts.pretrained import PretrainedNetwork
    from lgx.artifacts.start_record import StartRecord


def export(
    source: str,
    *,
    out: str,
    format: Literal["timm", "onnx", "pt2"] | None = None,
    tokenizer: str | None = None,
    force: bool = False,
) -> None:
    """Write a trained network for use elsewhere: a timm or transformers folder, safetensors, ONNX or torch.export.

    ONNX files and programs of torch.export take batches of any size. They hold class names, normalization, image size
    and the origin of the run, and are compared with the network before they are moved to their place.

    Args:
        source: Folder of a run (its checkpoints/best.ckpt is read), a checkpoint (it holds averaged weights if the run
            averages them), a model folder, or a learngene file of a whole network.
        out: Folder, or file ending in .safetensors, .onnx or .pt2.
        format: timm for a folder of the network's own library or a file ending in .safetensors, onnx for ONNX, pt2 for
            torch.export. By default the suffix of --out decides.
        tokenizer: Folder with GPT-2's encoder.json and vocab.bpe, or a name on the Hugging Face hub; the tokenizer is
            written beside a text model.
        force: Replace what another command or program wrote; what this command reads is never replaced.

    Raises:
        UserError: If the source is no ViT or GPT-2, cannot be read or written, the place is taken, or an ONNX file or
            a program gives other logits than the network.
    """
    from lgx.architectures import name_of
    from lgx.artifacts.checkpoints import best_of_run
    from lgx.artifacts.export.folders import check_model_place, check_program_place
    from lgx.artifacts.pretrained import load_pretrained
    from lgx.artifacts.timm_source import pinned_source
    from lgx.results.model_facts import model_facts

    kind = _format_of(out, format, tokenizer)
    check_place = check_model_place if kind == "timm" else check_program_place
    check_place(out, "lgx export", force, (source, tokenizer))
    checkpoint = pinned_source(best_of_run(source))
    network = load_pretrained(checkpoint)
    architecture = network.require_known("export")
    facts = {key: value for key, value in model_facts(checkpoint).items() if value is not None}
    if kind == "timm":
        write(
            out,
            network.model,
            architecture,
            network.mean,
            network.std,
            network.label_names or None,
            card=facts,
            tokenizer=tokenizer,
            writer="lgx export",
        )
    else:
        network = replace(network, origin={**network.origin, **facts})
        print(f"parity    {_write_program(out, kind, network, architecture)}")
    print(f"written   {out}: {name_of(architecture)}, {architecture.num_classes} classes")


def _format_of(out: str, given: str | None, tokenizer: str | None) -> str:
    """The format of an export: as given, otherwise by the suffix of ``--out``."""
    from pathlib import Path

    from lgx.errors import UserError
    from lgx.host.program_files import PROGRAMS

    suffix = Path(out).suffix
    of_suffix = suffix.removeprefix(".") if suffix in PROGRAMS else "timm"
    if given is not None and given != of_suffix:
        wanted = "a folder or a file ending in .safetensors" if given == "timm" else f"a file ending in .{given}"
        raise UserError(f"--format {given}: writes {wanted}, but got --out {out}")
    if tokenizer and of_suffix != "timm":
        raise UserError(f"--tokenizer: is written into a folder, but --out {out} is a file; leave it out")
    return of_suffix


def _write_program(out: str, kind: str, network: "PretrainedNetwork", architecture: "Architecture") -> str:
    """Write a program, and say how far its logits are from those of the network."""
    from lgx.artifacts.export.about import About
    from lgx.artifacts.export.onnx_file import write_onnx
    from lgx.artifacts.export.pt2_file import write_pt2
    from lgx.errors import UserError

    if not network.has_head:
        raise UserError(f"{network.name}: has no trained head; train a descendant first, or write a folder")
    about = About.of(network, architecture)
    difference = (write_onnx if kind == "onnx" else write_pt2)(out, network.model, about)
    if difference is None:
        return "not checked: onnxruntime is not installed; pip install 'lgx[export]'"
    return f"logits differ by at most {difference:.1e} from those of the network"


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
