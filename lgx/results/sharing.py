"""What is uploaded of a learngene file or of a descendant's folder: its files, and a card that says what is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import timm

from lgx.architectures import GPT2Architecture, name_of
from lgx.artifacts.export.card import model_card, quoted
from lgx.artifacts.hub_files import BESIDE, CONFIG, WEIGHTS, HubName
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.source_names import HUB, TIMM, path_in, public_name
from lgx.artifacts.start_record import StartRecord
from lgx.core.rows import Row, read_rows
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.methods.registry import find_spec
from lgx.results.markdown import escape_markdown, piped
from lgx.results.merging import RESULTS, find_results
from lgx.results.metrics import heading, number, scale_of

CARD = "README.md"
_WRITER = "lgx push"
_UNKNOWN = "unknown"
_MOST_ROWS = 40
_COLUMNS = ("method", "network", "task", "split", "epochs", "metric", "value", "n", "seed")


@dataclass(frozen=True)
class Shared:
    """What is uploaded.

    Attributes:
        files: Name in the repository -> file on this machine.
        card: Content of the card, ``README.md``.
        left_out: Names in the folder that are not uploaded.
        notes: What others will see, in sentences for the terminal.
    """

    files: Mapping[str, Path]
    card: str
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Facts:
    """What a card says.

    Attributes:
        library: The library that loads it.
        tags: Tags of the hub.
        summary: One sentence.
        shown: Facts, as they are shown.
        code: How to load it.
        metrics: Values in the file itself, shown where no run is known.
    """

    library: str
    tags: str
    summary: str
    shown: Mapping[str, str]
    code: str
    metrics: Mapping[str, float] = field(default_factory=dict)


def shared(place: str | Path, name: str, runs: str | Path | Sequence[str | Path] = ()) -> Shared:
    """Read and check what is to be uploaded, and write its card.

    Args:
        place: Learngene file, or folder of a descendant.
        name: What others will give as the source, ``hf://org/name``.
        runs: Folders of runs, or files of results, whose numbers the card shows; by default the run of a learngene.

    Raises:
        UserError: If it is neither, is damaged, or the results cannot be read.
    """
    path, left_out = Path(place), list[str]()
    listed = [str(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    if path.name.endswith(SUFFIX):
        learngene = Learngene.load(path)
        facts, files = _of_learngene(learngene, name, path.name), {path.name: path}
        texts, own = [learngene.ancestor], path.parent / RESULTS
        listed = [str(own)] if not listed and own.is_file() else listed
    elif path.is_dir():
        facts, texts = _of_folder(path, name)
        files = {file: path / file for file in (WEIGHTS, CONFIG, *BESIDE) if (path / file).is_file()}
        left_out = sorted(entry.name for entry in path.iterdir() if entry.name not in {*files, CARD})
    else:
        raise UserError(f"{place}: expected a learngene file (*{SUFFIX}), or a folder that `lgx init` wrote")
    title = name.removeprefix(HUB).partition("@")[0]
    card = model_card(title, facts.library, facts.tags, facts.summary, facts.shown, {}, facts.code, _WRITER)
    card += f"\n## Measured\n\n{_measured(listed, facts.metrics)}\n"
    notes = [
        f"the files name {text!r}, a path of this machine; everybody who may read the repository sees it"
        for text in texts
        if text and path_in(text)
    ]
    return Shared(files, card, tuple(left_out), tuple(notes))


def _of_learngene(learngene: Learngene, name: str, file: str) -> _Facts:
    spec = find_spec(learngene.method)
    tasks = ", ".join(learngene.tasks) or str(learngene.task.get("name", _UNKNOWN))
    what = "a hypernetwork" if learngene.content == "hypernetwork" else f"{learngene.num_layers} layers"
    shown = {
        "method": escape_markdown(learngene.method) if spec is None else f"{spec.label}: {spec.paper}, {spec.url}",
        "content": f"{what}, {learngene.num_parameters:,} parameters",
        "network": f"{name_of(learngene.architecture)}, {learngene.architecture.num_classes} classes",
        **_ancestor(learngene.ancestor),
        "data": escape_markdown(tasks),
        "written by": f"lgx {learngene.lgx_version}",
    }
    arch = learngene.architecture.spec()
    code = f"import lgx\n\nmodel = lgx.init({quoted(name)}, {quoted(arch)})  # or another size"
    summary = f"A learngene of {escape_markdown(learngene.method)}: {file} initializes descendants of several sizes."
    return _Facts("lgx", "learngene, pytorch", summary, shown, code, learngene.metrics)


def _of_folder(path: Path, name: str) -> tuple[_Facts, list[str]]:
    """What the card of a descendant says, and the texts in its files that may be paths of this machine."""
    if not (path / WEIGHTS).is_file():
        raise UserError(f"{path}: has no {WEIGHTS}; only safetensors files are uploaded")
    network, record = load_pretrained(str(path)), StartRecord.read(str(path))
    architecture = network.architecture
    spec = find_spec(record.method) if record else None
    method = "trained network, or its start is not recorded" if record is None else escape_markdown(record.method)
    classes = str(getattr(network.model, "num_classes", _UNKNOWN))
    source = str(record.arguments.get("source", "")) if record else ""
    shown = {
        "method": method if spec is None else f"{spec.label}: {spec.paper}, {spec.url}",
        "network": name_of(architecture) if architecture else type(network.model).__name__,
        "parameters": f"{sum(p.numel() for p in network.model.parameters()):,}",
        "classes": escape_markdown(", ".join(network.label_names)) or classes,
        **(_ancestor(source, "source") if record else {}),
        "written by": f"lgx {__version__}",
    }
    repository = name.removeprefix(HUB)
    if HubName.parse(name).inside:  # timm and transformers read whole repositories
        library, tags = "lgx", "learngene"
        arch = quoted(architecture.spec()) if architecture else "..."
        code = f"import lgx\n\nmodel = lgx.init({quoted(name)}, {arch})"
    elif isinstance(architecture, GPT2Architecture):
        library, tags, model = "transformers", "gpt2, learngene", "AutoModelForSequenceClassification"
        repository, _, revision = repository.partition("@")
        branch = f", revision={quoted(revision)}" if revision else ""
        code = f"from transformers import {model}\n\nmodel = {model}.from_pretrained({quoted(repository)}{branch})"
    else:
        library, tags = "timm", "image-classification, timm, learngene"
        code = f"import timm\n\nmodel = timm.create_model({quoted(f'hf-hub:{repository}')}, pretrained=True)"
    summary = f"A descendant; `lgx init --source {name} …` reads it as well."
    others = [text for text in (record.arguments.values() if record else ()) if isinstance(text, str)]
    absolute = [text for text in others if text != source and Path(path_in(text) or "").is_absolute()]
    return _Facts(library, tags, summary, shown, code), [source, *absolute]


def _ancestor(source: str, what: str = "ancestor") -> dict[str, str]:
    """Name and license of a source."""
    if not source:
        return {what: "none"}
    license = license_of(source)
    return {what: escape_markdown(public_name(source)), f"license of the {what}'s weights": license or _UNKNOWN}


def license_of(source: str) -> str | None:
    """License of the weights that timm states for a model; None for other sources, and where timm states none.

    Args:
        source: The name of an ancestor: a timm name, ``timm:NAME,…`` or ``hf-hub:timm/NAME``.
    """
    name = source.removeprefix(TIMM).removeprefix("hf-hub:timm/").split(",")[0]
    if "weights=" in source or not timm.is_model(name.split(".")[0]):
        return None
    config = timm.get_pretrained_cfg(name)
    return config.license if config is not None else None


def _measured(runs: Sequence[str], metrics: Mapping[str, float]) -> str:
    """The measured values of runs as a table; otherwise those in the file."""
    rows = [row for file in find_results(runs) for row in read_rows(file)] if runs else []
    rows = [row for row in rows if row.split != "train"]
    if rows:
        table = piped([_COLUMNS, ("---",) * len(_COLUMNS), *(_cells(row) for row in rows[:_MOST_ROWS])])
        more = f"\n\n{len(rows) - _MOST_ROWS} more rows are not shown." if len(rows) > _MOST_ROWS else ""
        return f"Each row is one run; epochs 0 is a start without training.\n\n{table}{more}"
    if metrics:
        values = "\n".join(f"- {escape_markdown(name)}: {value:.4g}" for name, value in metrics.items())
        return f"The file states of the network that it was saved from, on the validation split:\n\n{values}"
    return "Nothing is known."


def _cells(row: Row) -> tuple[str, ...]:
    value = number(row.value * scale_of(row.metric), row.metric)
    texts: tuple[Any, ...] = (
        row.method, row.architecture, row.task, row.split, row.epochs, heading(row.metric), value, row.n, row.seed,
    )  # fmt: skip
    return tuple(escape_markdown(str(text)) for text in texts)
