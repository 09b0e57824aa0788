"""``lgx init``: write a descendant that plain timm or transformers loads."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser

    from lgx.architectures import Architecture
    from lgx.architectures.library_models import LibraryModel
    from lgx.initialization import Initialization, Initializer, Origin


def main(argv: list[str]) -> None:
    """Parse the command line and write the descendant.

    Args:
        argv: Options of :func:`write_start`, and the options of all initializers.

    Raises:
        UserError: If an option is wrong, or the descendant cannot be initialized or written.
    """
    from lgx.commands.run import call
    from lgx.commands.size import with_options_of
    from lgx.methods.initializers import initializer_options

    call("lgx init", write_start, argv, with_options_of(initializer_options()))


def parsers() -> "list[ArgumentParser]":
    """The parser of the options."""
    from lgx.commands.run import make_parser
    from lgx.commands.size import with_options_of
    from lgx.methods.initializers import initializer_options

    return [make_parser("lgx init", write_start, with_options_of(initializer_options()))]


def write_start(
    *,
    out: str,
    arch: str | None = None,
    source: str | None = None,
    head: int | None = None,
    num_classes: int | None = None,
    tokenizer: str | None = None,
    seed: int = 0,
    allow_non_finite: bool = False,
    force: bool = False,
    options: Mapping[str, Any],
) -> None:
    """Write a descendant that plain timm or, for text, transformers loads.

    With ``--out FOLDER`` the folder holds config.json, model.safetensors and a model card.
    ``timm.create_model("local-dir:FOLDER", pretrained=True)`` loads it, or for text
    ``AutoModelForSequenceClassification.from_pretrained("FOLDER")``. With ``--out FILE.safetensors`` the file holds the
    weights and, in its metadata, what started them.

    Hypernetworks also initialize models of timm and torchvision, weight selection ConvNeXts of timm. Hypernetworks do
    not predict the means and variances of batch norm: estimate these on data before you use such a model untrained.

    Args:
        out: Folder, or file ending in .safetensors.
        arch: The descendant: a name (6-Small), a specification (depth=6,embed_dim=384,num_heads=6,img_size=224), or a
            model of timm or torchvision (timm:resnet34; timm:resnet34,img_size=64,in_chans=1; torchvision:resnet34).
            For text a name (6-GPT2) or a specification (gpt2:depth=6,embed_dim=384,num_heads=6,max_len=128). With a
            budget (--params, --macs, --latency) what it leaves alone: depth=6, or form and inputs of a model of timm,
            timm:vit_small_patch14_dinov2,img_size=56.
        source: Learngene file, folder, checkpoint of a run, or timm model name; hf://org/name@revision/file, a URL, or
            zoo:NAME, each with #sha256=… if wanted; without it the start is random, or a --method that needs none.
        head: Number of classes of a new head that is initialized at random; by default the source's head is kept.
        num_classes: Number of classes of a random start or a predicted head; by default those of source or --task.
        tokenizer: Folder with GPT-2's encoder.json and vocab.bpe, or a name on the Hugging Face hub; the tokenizer is
            written beside a text model.
        seed: Seed of all random initialization.
        allow_non_finite: Read a learngene that holds NaN or infinity.
        force: Replace what another command, program, method or source wrote; what this command reads is never replaced.
        options: Those of a budget, ``method`` and those of its initializer; None where an option is not given.

    Raises:
        UserError: If an option is wrong, or the descendant cannot be initialized or written.
    """
    from lgx.artifacts.source_names import path_of
    from lgx.artifacts.sources import resolve_options
    from lgx.commands.size import split_options
    from lgx.host.safety import non_finite_allowed
    from lgx.methods.initializers import initializer_for

    size, options = split_options(options)
    named, read = resolve_options({"source": source, **options})
    paths = [path_of(place) for place in read.values() if isinstance(place, str)]
    _check(out, force, [tokenizer, *paths], seed, head=head, num_classes=num_classes)
    with non_finite_allowed(allow_non_finite):
        initializer = initializer_for(**read, seed=seed)
        _check_same_start(out, initializer, named["source"], force)
        arch = size.choose(initializer, arch, head or num_classes, seed)
        architecture, start = start_descendant(arch, initializer, head, num_classes, seed, out)
    _write(out, initializer, architecture, start, named, seed, tokenizer, keep_names=not head)


def _write(
    out: str,
    initializer: "Initializer",
    architecture: "Architecture | LibraryModel",
    start: "Initialization",
    named: Mapping[str, Any],
    seed: int,
    tokenizer: str | None,
    keep_names: bool,
) -> None:
    """Report what was built, and write it with what it inherits; the names of the classes only with the head."""
    from lgx.architectures.library_models import LibraryModel
    from lgx.artifacts.source_names import public_name
    from lgx.artifacts.start_record import StartRecord
    from lgx.commands.export import write

    origin, source = initializer.origin(), named["source"]
    method = initializer.method if isinstance(architecture, LibraryModel) else initializer.named(architecture)
    print(f"method    {method}{f' from {source}' if source else ''}")
    print(f"built     {_name(architecture)}, {architecture.num_classes} classes\n{start.describe()}")
    _print_normalization(architecture, origin, source)
    label_names = origin.label_names if keep_names else None
    card = {"method": method, "source": source and public_name(source), "seed": seed, "task": origin.task}
    arguments = {name: value for name, value in named.items() if name != "method" and value is not None}
    record = initializer.record or StartRecord(method, type(initializer).__name__, arguments)
    write(out, start.model, architecture, origin.mean, origin.std, label_names, card, tokenizer, "lgx init", record)
    print(f"written   {out}")


def _print_normalization(architecture: "Architecture | LibraryModel", origin: "Origin", source: str | None) -> None:
    """Print which mean and std the descendant records, and where they come from; nothing for other models than ViTs."""
    from lgx.architectures import ViTArchitecture

    if source is None or not isinstance(architecture, ViTArchitecture):
        return
    if origin.normalization is not None:
        print(f"normalize {origin.normalization}, of {source}")
        return
    remedy = f"`lgx import timm:NAME --weights {source} --out FOLDER` takes those of timm's model"
    print(f"normalize mean 0.5, std 0.5, because {source} does not say its own; {remedy}")


def _name(architecture: "Architecture | LibraryModel") -> str:
    from lgx.architectures import name_of
    from lgx.architectures.library_models import LibraryModel

    return architecture.name if isinstance(architecture, LibraryModel) else name_of(architecture)


def _check(out: str, force: bool, reads: Iterable[str | None], seed: int, **counts: int | None) -> None:
    """Refuse a wrong seed, a head without classes, and a place that is taken, before anything is computed."""
    from lgx.artifacts.export import check_model_place
    from lgx.core.seed import check_seed
    from lgx.errors import UserError

    check_seed(seed, "--seed")
    for option, count in counts.items():
        if count is not None and count < 1:
            raise UserError(f"--{option}: a head needs at least 1 class, got {count}")
    check_model_place(out, "lgx init", force, reads)


def _check_same_start(out: str, initializer: "Initializer", source: str | None, force: bool) -> None:
    """Refuse to replace a descendant of another method or source, which is easily lost by a repeated ``--out``."""
    from lgx.artifacts.start_record import StartRecord
    from lgx.errors import UserError

    there = None if force else StartRecord.read(out)
    if there is None:
        return
    record = initializer.record
    kind, read = (
        (record.initializer, record.arguments.get("source")) if record else (type(initializer).__name__, source)
    )
    if (there.initializer, there.arguments.get("source")) != (kind, read):
        origin = there.arguments.get("source")
        raise UserError(
            f"--out {out}: holds a descendant of method {there.method}{f' from {origin}' if origin else ''}; choose "
            f"another place, or replace it with --force"
        )


def _is_vit(arch: str, initializer: "Initializer") -> bool:
    """Whether a model of timm is started as a ViT, whose sizes may be changed, and not as any model."""
    from lgx.architectures.describing import describe_timm_model

    zoo, _, model = arch.split(",")[0].partition(":")
    known = describe_timm_model(model).architecture if zoo == "timm" else None
    return known is not None and (known.is_plain or initializer.is_random or not initializer.starts_any_model)


def start_descendant(
    arch: str,
    initializer: "Initializer",
    head: int | None,
    num_classes: int | None,
    seed: int,
    out: str | None = None,
) -> "tuple[Architecture | LibraryModel, Initialization]":
    """Build the descendant and initialize it.

    Args:
        arch: The descendant.
        initializer: Gives its parameters.
        head: Number of classes of a new head; None keeps the source's.
        num_classes: Number of classes of a random start or a predicted head.
        seed: Seed of all random initialization.
        out: Where it will be written, which must suit a model of torchvision; None if it is not written.

    Raises:
        UserError: If the initializer does not start such a model, or the number of classes is not known.
    """
    import torch

    from lgx.architectures import parse_for_source
    from lgx.architectures.library_models import LIBRARIES, parse_library_model
    from lgx.artifacts.export import check_torchvision_out
    from lgx.errors import UserError
    from lgx.initialization import initialize, initialize_library_model
    from lgx.methods.initializers import methods_for_any_model

    origin = initializer.origin()
    if not (head or num_classes) and origin.num_classes == 0:
        raise UserError(f"task {origin.task}: its images have no classes; give --num_classes")
    classes = head or num_classes or origin.num_classes
    torch.manual_seed(seed)
    if arch.startswith(LIBRARIES) and not _is_vit(arch, initializer):
        model = parse_library_model(arch, classes or 1000)
        if not initializer.starts(model):
            others = " or ".join(methods_for_any_model())
            raise UserError(f"--arch {arch}: {initializer.method} initializes no such model; use --method {others}")
        if out is not None:
            check_torchvision_out(out, model)
        return model, initialize_library_model(model, initializer, head="new" if head else "keep")
    architecture = parse_for_source(arch, origin.architecture, origin.kind, classes)
    return architecture, initialize(architecture, initializer, head="new" if head else "keep")
