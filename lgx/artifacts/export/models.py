"""Write models as folders that timm, for text transformers, loads."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import timm
from timm.models import save_for_hf
from torch import Tensor, nn

from lgx.architectures import Architecture, HFArchitecture, ViTArchitecture, name_of
from lgx.architectures.describing import describe_vit
from lgx.artifacts.export.folders import PROGRAM, made, model_card
from lgx.artifacts.export.program import task_of, to_texts, write_pt2
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.artifacts.safetensors_files import StartRecord, write_safetensors
from lgx.artifacts.source_names import CONFIG, DENSE, OF_TEXTS, WEIGHTS, TimmSource
from lgx.artifacts.timm_models import normalization_of
from lgx.artifacts.vector_space import Space, write_space
from lgx.core.eval_transforms import as_in_timm, resize_of_timm
from lgx.core.task import AS_STORED, Normalization, Reading, height_width, outputs_in_words
from lgx.core.version import __version__
from lgx.host.failures import write_errors
from lgx.host.files import atomic_path

_DECODING = """
scores = model(images)[:, {prefix}:].mT.unflatten(2, {grid})  # of each patch, without {prefix} other token(s)
logits = torch.nn.functional.interpolate(scores, size=images.shape[2:], mode="bilinear")"""
"""Code that completes the output of timm's ViT for segmentation, which scores tokens."""
_MAPPING = """
dense = load_file("{file}")
vectors = model(images) @ dense["linear.weight"].T + dense["linear.bias"]  # in the space of the ancestor's vectors"""
"""Code that maps the vectors of an image encoder."""
Words = list[Path] | Any | None
"""The tokenizer of a network of texts, and how texts are generated: files to copy, or a tokenizer to save."""


def write_descendant(
    out: str | Path,
    model: nn.Module,
    architecture: Architecture,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    label_names: tuple[str, ...] | None = None,
    card: dict[str, Any] | None = None,
    writer: str = "lgx",
    record: StartRecord | None = None,
    words: Words = None,
    reading: Reading = AS_STORED,
    space: Space | None = None,
) -> None:
    """Write a model as a timm ``local-dir:`` folder, for text one that ``from_pretrained`` loads.

    An existing folder is replaced; commands first call :func:`~lgx.artifacts.export.check_model_place`. Shared
    layers of a ViT are written one by one, so the result is an ordinary ViT.

    Args:
        out: The folder.
        model: The model, under timm's or transformers' names.
        architecture: Its description.
        mean: Per-channel mean of its inputs, for timm's ``resolve_data_config``.
        std: Per-channel standard deviation of its inputs.
        label_names: Class names in index order.
        card: Facts for the model card.
        writer: The command that writes the model; it is recorded in the folder.
        record: The start of the model; it is recorded in the folder.
        words: What is written beside a network of texts.
        reading: How its images are read.
        space: Map of its vectors into the space of its ancestor's.
    """
    out = Path(out)
    if isinstance(architecture, ViTArchitecture):
        architecture = architecture.unshared()
    channels = architecture.in_chans if isinstance(architecture, ViTArchitecture) else 0
    inputs = Normalization(mean, std).for_channels(channels) if mean and std and channels else None
    if not isinstance(architecture, ViTArchitecture):
        with _folder(out, _text_card(out, architecture, model, card or {}, writer, space), record) as temporary:
            _write_text(temporary, model, cast(HFArchitecture, architecture), words, label_names or ())
            if space is not None:
                write_space(temporary, space, reads_text=True)
        return
    plain, arguments = _model_of_timm(model.state_dict(), architecture, inputs, reading)
    # timm does not record the kind of a network with other outputs than one class per image.
    config: dict[str, Any] = {} if architecture.kind == "classification" else {"kind": architecture.kind}
    config |= {"label_names": list(label_names)} if label_names else {}
    config |= {"value_range": list(reading.value_range)} if reading.value_range else {}
    card_text = _card(out, architecture, plain, card or {}, writer, space)
    with _folder(out, card_text, record) as temporary, write_errors(out):
        save_for_hf(plain, str(temporary), model_config=config, model_args=arguments, safe_serialization=True)
        if space is not None:
            write_space(temporary, space, reads_text=False)


def _model_of_timm(
    tensors: dict[str, Tensor], architecture: ViTArchitecture, inputs: Normalization | None, reading: Reading
) -> tuple[Any, dict[str, Any]]:
    """The same weights in timm's own class, and the arguments of ``timm.create_model``."""
    arguments = architecture.timm_args()
    arguments.pop("num_classes", None)  # timm reads it from the configuration's top level
    name = architecture.timm_name
    model: Any = timm.create_model(name, pretrained=False, num_classes=architecture.num_classes, **arguments)
    model.load_state_dict(tensors)
    channels = architecture.in_chans
    size = height_width(architecture.img_size)
    shape = {**as_in_timm(reading.resize), "input_size": (channels, *size), "fixed_input_size": True, "tag": None}
    normalization = inputs or Normalization((0.5,) * channels, (0.5,) * channels)
    model.pretrained_cfg = {**model.pretrained_cfg, **shape, **normalization._asdict()}
    return model, arguments


def _write_text(
    folder: Path, model: Any, architecture: HFArchitecture, words: Words, label_names: tuple[str, ...]
) -> None:
    """Write a network of texts into a new folder, as transformers does; tied parameters are written once."""
    from transformers import AutoTokenizer  # of an extra

    headless = architecture.kind != "language" and not architecture.num_classes
    config = (architecture.replace(num_classes=2) if headless else architecture).configuration()
    config.architectures = [_class_of(model)]
    config.dtype = next(model.parameters()).dtype
    if architecture.kind != "language" and not headless:
        is_single = architecture.kind == "text"
        config.problem_type = "single_label_classification" if is_single else "multi_label_classification"
    name_classes(config, label_names)
    folder.mkdir()
    if isinstance(words, list):
        for path in words:
            shutil.copyfile(path, folder / path.name)
    elif words is not None:
        words.save_pretrained(folder)
    if model.reads_last_token and config.pad_token_id is None and (folder / "tokenizer_config.json").is_file():
        config.pad_token_id = AutoTokenizer.from_pretrained(
            folder
        ).pad_token_id  # transformers' heads find padding by it
    config.save_pretrained(folder)
    tensors = model.base_model.state_dict() if headless else architecture.tensors(model)
    write_safetensors(folder / WEIGHTS, tensors, {"format": "pt"})


def words_in(folder: Path) -> list[Path]:
    """The files of a tokenizer and for generation in a folder."""
    return [folder / name for name in OF_TEXTS if (folder / name).is_file()]


def name_classes(config: Any, names: tuple[str, ...]) -> None:
    """Put the names of the classes, if they are known, into a configuration of transformers."""
    if names:
        config.id2label = dict(enumerate(names))
        config.label2id = {name: index for index, name in enumerate(names)}


def write_program_folder(
    out: Path, network: PretrainedNetwork, card: dict[str, Any], writer: str, record: StartRecord
) -> None:
    """Write a network that no architecture describes: a program of torch, the weights, and a note.

    Args:
        out: A folder.
        network: The network.
        card: Facts for the note.
        writer: The command that writes it.
        record: The start of the network.
    """
    summary = f"Written by lgx {__version__}. The network {network.unknown_part}; torch alone loads its program."
    code = f"import torch\n\nmodel = torch.export.load({f'{out.name}/{PROGRAM}'!r}).module()"
    sizes = {"parameters": _parameters(network.model)}
    note = model_card(out.name, "pytorch", "image-classification, learngene", summary, sizes, card, code, writer)
    task = task_of(network, card.get("task") or "")
    with atomic_path(out) as temporary:
        temporary.mkdir()
        write_pt2(temporary / PROGRAM, network.model, task, to_texts(task, card))
        write_safetensors(temporary / WEIGHTS, network.model.state_dict(), {"format": "pt"})
        (temporary / "README.md").write_text(note, encoding="utf-8")
        record.write(temporary)


@contextmanager
def _folder(out: Path, card: str, record: StartRecord | None) -> Iterator[Path]:
    """Write a model folder atomically: what the block writes, the card, and the record."""
    with atomic_path(out) as temporary:
        yield temporary
        shutil.copymode(temporary / CONFIG, temporary / WEIGHTS)  # safetensors lets their owner alone read files
        (temporary / "README.md").write_text(card, encoding="utf-8")
        if record is not None:
            record.write(temporary)


def _card(
    out: Path,
    architecture: ViTArchitecture,
    model: nn.Module,
    facts: dict[str, Any],
    writer: str,
    space: Space | None,
) -> str:
    size = sum(tensor.nbytes for tensor in model.state_dict().values()) / 1e6
    sizes = {"parameters": _parameters(model), "size": f"{size:.2f} MB in float32"}
    sizes["MACs per image"] = f"{architecture.count_macs():,}"
    tag, imports, use = "image-classification", "import timm\n", ""
    what = f"A vision transformer {made(facts)} by lgx {__version__}: {architecture.spec()}"
    if architecture.kind == "segmentation":
        tag, imports = "image-segmentation", "import timm\nimport torch\n"
        use = _DECODING.format(grid=architecture.grid, prefix=architecture.num_prefix_tokens)
    if space is not None:
        tag, imports = "image-feature-extraction", "import timm\nfrom safetensors.torch import load_file\n"
        use = _MAPPING.format(file=f"{out.name}/{DENSE}/{WEIGHTS}")
    code = f'{imports}\nmodel = timm.create_model("local-dir:{out.name}", pretrained=True){use}'
    summary = f"{what}, {outputs_in_words(architecture.kind, architecture.num_classes)}."
    return model_card(out.name, "timm", f"{tag}, timm, learngene", summary, sizes, facts, code, writer)


def _class_of(model: Any) -> str:
    """The class of transformers that loads a network of texts; of one without a head the network below the head."""
    network = model if model.is_language_model or model.num_labels else model.base_model
    return next(each.__name__ for each in type(network).__mro__ if each.__module__.startswith("transformers."))


def _text_card(
    out: Path, architecture: Architecture, model: Any, facts: dict[str, Any], writer: str, space: Space | None
) -> str:
    kind = model.config.model_type
    summary = f"A network of the type {kind}, {made(facts)} by lgx {__version__}: {name_of(architecture)}."
    loader = _class_of(model)
    code = f'from transformers import {loader}\n\nmodel = {loader}.from_pretrained("{out.name}")'
    sizes = {"parameters": _parameters(model)}
    if space is not None:
        loader = "SentenceTransformer"
        code = f'from sentence_transformers import {loader}\n\nmodel = {loader}("{out.name}")'
        summary += " Its vectors are in the space of its ancestor's."
    library = "transformers" if space is None else "sentence-transformers"
    return model_card(out.name, library, f"{kind}, learngene", summary, sizes, facts, code, writer)


def _parameters(model: nn.Module) -> str:
    return f"{sum(p.numel() for p in model.parameters()):,}"


_POOLS = {"token": "its head reads the class token", "avg": "its head reads the mean of the tokens"}


def describe_model(model: nn.Module) -> tuple[str, ...]:
    """Lines for the terminal: how lgx can use a model of timm, and its mean and std."""
    architecture, reason = describe_vit(model)
    what = f"{name_of(architecture)}, {architecture.num_classes} classes" if architecture else type(model).__name__
    what += f", {_POOLS[pool]}" if (pool := getattr(model, "global_pool", None)) in _POOLS else ""
    use = "" if architecture else f"; lgx can use it as a teacher only, because {reason}"
    return f"model     {what}{use}", f"normalize {normalization_of(model)}"


def write_imported(out: str | Path, model: nn.Module, source: TimmSource, writer: str) -> None:
    """Write a model of timm as a ``local-dir:`` folder under its own name, with its sizes, mean and std.

    Args:
        out: The folder.
        model: The model.
        source: What it was imported from.
        writer: The command that writes it, which the folder then names.
    """
    out = Path(out)
    timms = cast(Any, model)
    config = dict(timms.pretrained_cfg)
    size = getattr(getattr(timms, "patch_embed", None), "img_size", None)
    shape = (config["input_size"][0], *(size or config["input_size"][1:]))
    timms.pretrained_cfg = {**config, **as_in_timm(resize_of_timm(config)), "input_size": shape}
    arguments = {key: value for key, value in source.arguments().items() if key != "num_classes"}
    sizes = {"parameters": _parameters(timms), "license": str(timms.pretrained_cfg.get("license") or "unknown")}
    facts = {"weights": Path(source.weights).name if source.weights else None, "model": source.model}
    summary = f"{source.model} of timm, written by lgx {__version__}: {timms.num_classes} classes."
    code = f'import timm\n\nmodel = timm.create_model("local-dir:{out.name}", pretrained=True)'
    card = model_card(out.name, "timm", "image-classification, timm", summary, sizes, facts, code, writer)
    with _folder(out, card, None) as temporary, write_errors(out):
        save_for_hf(timms, str(temporary), model_args=arguments, safe_serialization=True)
