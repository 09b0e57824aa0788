"""``lgx init``: write a descendant that plain timm or transformers loads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jsonargparse.typing import PositiveInt

from lgx.architectures import Architecture, ViTArchitecture, name_of
from lgx.artifacts.export import check_model_place, write_descendant, write_program_folder
from lgx.artifacts.export.program import WRITER as PROGRAM_WRITER
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.artifacts.safetensors_files import StartRecord
from lgx.artifacts.sources import Source, resolve_options
from lgx.commands.export import write_program
from lgx.commands.run import SizeOptions
from lgx.commands.words import words_for
from lgx.errors import UserError
from lgx.host.files import digest_of
from lgx.initialization import Initialization, Initializer, initialize
from lgx.initialization.sizing import Budget
from lgx.methods.initializers import initializer_for, initializer_options, takes_option

further_options = initializer_options
"""``method`` and the options of all initializers."""


def init(
    *,
    out: str,
    size: SizeOptions,
    source: str | None = None,
    head: PositiveInt | None = None,
    num_classes: PositiveInt | None = None,
    tokenizer: str | None = None,
    seed: int = 0,
    force: bool = False,
    options: Mapping[str, Any],
) -> None:
    """Initialize a descendant and write it as a model that plain timm loads (for text: transformers).

    A folder contains config.json, model.safetensors and a model card. `timm.create_model("local-dir:FOLDER",
    pretrained=True)` loads it, or for text `AutoModelForSequenceClassification.from_pretrained("FOLDER")`. A finished
    network of a pool (--stitch) may also be a file that ends in .onnx or .pt2. With a budget, --data
    (train/<class>/<image>) chooses the start whose untrained features have the highest k-NN accuracy.

    Example: lgx init --source ancestor --arch depth=6 --method weight_subcloning --head 5 --out small

    Args:
        out: Folder.
        size: The descendant.
        source: Learngene file, folder, checkpoint of a run, or timm model name; hf://org/name@revision/file.
            Without it, the start is random, or that of a --method without a source.
        head: Number of classes of a new random head; by default the source's head is kept.
        num_classes: Number of classes of a random start or a predicted head; by default that of the source or --task.
        tokenizer: Another tokenizer for a network of texts than that of the source: folder, or name on the hub.
        seed: Seed of all random initialization.
        force: Replace what another command or program wrote. The command never replaces its inputs.
        options: ``method`` and those of its initializer; None where an option is not given.
    """
    budgets = size.budgets()
    data, options = data_for_sizes(options, budgets)
    named, read = resolve_options({"source": source, **options})
    reads = [place for place in read.values() if isinstance(place, str)]
    writer = PROGRAM_WRITER if out.endswith(".onnx") else "lgx init"
    check_model_place(out, writer, force, [tokenizer, *reads], tokenizer)
    initializer = initializer_for(**read, seed=seed)
    finished = initializer.finished(size.arch, budgets)
    if finished is not None:
        if head or num_classes or tokenizer:
            raise UserError("--head, --num_classes, --tokenizer: this network is finished; leave them out")
        _write_finished(out, initializer, finished, _record(initializer, named, read), named["source"])
        return
    if out.endswith((".onnx", ".pt2")):
        raise UserError(f"--out {out}: is for finished networks; give a folder, train the start, and use `lgx export`")
    record = _record(initializer, named, read)
    architecture, start = start_descendant(size.arch, initializer, head, num_classes, seed, budgets, data)
    place = read["source"]
    _write(out, initializer, architecture, start, record, named["source"], place, seed, tokenizer, keep_names=not head)


def _write_finished(
    out: str, initializer: Initializer, network: PretrainedNetwork, record: StartRecord, source: str
) -> None:
    """Write a network that needs no training, and say if it is no plain one."""
    card = {"method": initializer.method, "source": source, "task": initializer.origin().task}
    architecture = network.architecture
    print(f"method    {initializer.method} from {source}")
    print(f"built     {name_of(architecture) if architecture else network.unknown_part}")
    if out.endswith((".onnx", ".pt2")):
        write_program(out, network, card)
    elif architecture is not None:
        about = network.mean, network.std, network.label_names, card, "lgx init", record, None, network.reading
        write_descendant(out, network.model, architecture, *about)
    else:
        write_program_folder(Path(out), network, card, "lgx init", record)
    print(f"written   {out}")


def _record(initializer: Initializer, named: Mapping[str, Any], read: Mapping[str, Any]) -> StartRecord:
    """The record of its start that the descendant will contain."""
    arguments = {name: value for name, value in named.items() if name != "method" and value is not None}
    texts = {name: value for name, value in read.items() if isinstance(value, str)}
    digests = {name: digest_of(file) for name, place in texts.items() if (file := Source("", place).weights)}
    return initializer.record or StartRecord(initializer.method, type(initializer).__name__, arguments, digests)


def _write(
    out: str,
    initializer: Initializer,
    architecture: Architecture,
    start: Initialization,
    record: StartRecord,
    source: str | None,
    place: str | None,
    seed: int,
    tokenizer: str | None,
    keep_names: bool,
) -> None:
    """Print a summary of the descendant, and write it with its origin; class names only if it has the source's head."""
    origin = initializer.origin()
    method = initializer.named(architecture)
    print(f"method    {method}{f' from {source}' if source else ''}")
    print(f"built     {name_of(architecture)}, {architecture.outputs}\n{start.describe()}")
    if source is not None and isinstance(architecture, ViTArchitecture):
        unknown = f"mean 0.5, std 0.5, because {source} does not contain its normalization"
        print(f"normalize {f'{origin.normalization}, of {source}' if origin.normalization else unknown}")
    label_names = origin.label_names if keep_names else None
    card = {"method": method, "source": source, "seed": seed, "task": origin.task}
    record = record if initializer.record else replace(record, method=method)
    words = words_for(architecture, tokenizer, place)
    inputs = origin.mean, origin.std
    reading = origin.reading
    if origin.half is not None and architecture.reads_text:
        start.model.to(origin.half)
    write_descendant(out, start.model, architecture, *inputs, label_names, card, "lgx init", record, words, reading)
    print(f"written   {out}")


def data_for_sizes(options: Mapping[str, Any], budgets: Sequence[Budget]) -> tuple[str | None, dict[str, Any]]:
    """The data that rank sizes, and the remaining options, for the initializer.

    A method that reads images has an option ``data`` as well. A folder without classes cannot rank sizes.
    """
    data = options.get("data")
    if takes_option(options.get("method"), "data"):
        from data_modules.catalog import has_classes

        return (data if data and budgets and has_classes(Path(data)) else None), dict(options)
    if data is not None and not budgets:
        raise UserError("--data: ranks the sizes within a budget; add --params, --macs or --latency")
    return data, {name: value for name, value in options.items() if name != "data"}


def start_descendant(
    arch: str | None,
    initializer: Initializer,
    head: int | None,
    num_classes: int | None,
    seed: int,
    budgets: Sequence[Budget] = (),
    data: str | None = None,
) -> tuple[Architecture, Initialization]:
    """Build the descendant and initialize it.

    Args:
        arch: The descendant; with budgets only the fixed values.
        initializer: Gives its parameters.
        head: Number of classes of a new head; None keeps the source's.
        num_classes: Number of classes of a random start or a predicted head.
        seed: Seed of all random initialization.
        budgets: Upper limits for the choice of sizes, see :func:`lgx.commands.size.choose_size`.
        data: Data set that ranks the sizes within the budgets.
    """
    if budgets and initializer.front is not None:
        from lgx.commands.members import best_member

        arch = initializer.size_text(best_member(initializer, initializer.front, arch, budgets))
    elif budgets:
        from lgx.commands.size import choose_size

        arch = choose_size(initializer, arch, head or num_classes, budgets, data, seed)
    if arch is None:
        raise UserError("--arch: give the descendant's size (depth=6), or a budget: --params, --macs or --latency")
    origin = initializer.origin()
    if not (head or num_classes) and origin.num_classes == 0 and initializer.front is None:
        raise UserError(f"task {origin.task}: the images have no classes; give --num_classes")
    classes = head or num_classes or origin.num_classes
    torch.default_generator.manual_seed(seed)
    architecture = initializer.named_size(arch, classes)
    start = initialize(architecture, initializer, head="new" if head else "keep")
    return start.architecture, start
