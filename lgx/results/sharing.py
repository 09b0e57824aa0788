"""What is uploaded of a learngene file or of a descendant's folder: its files, and a card that says what is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lgx.architectures import GPT2Architecture, name_of
from lgx.artifacts.export.folders import BESIDE, CONFIG, WEIGHTS, model_card, quoted
from lgx.artifacts.hub_files import HubName
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.source_names import HUB, path_in, public_name
from lgx.artifacts.start_record import StartRecord
from lgx.core.rows import Row, read_rows
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.methods.registry import find_spec
from lgx.results.licenses import UNKNOWN, license_of
from lgx.results.markdown import escape_markdown, piped
from lgx.results.merging import RESULTS, find_results
from lgx.results.metrics import heading, number, scale_of

CARD = "README.md"
_WRITER = "lgx push"
_COLUMNS = ("method", "network", "task", "split", "epochs", "metric", "value", "n", "seed")


@dataclass(frozen=True)
class Shared:
    """What is uploaded.

    Attributes:
        files: Name in the repository -> file on this machine.
        card: Content of the card, ``README.md``.
        notes: What is left out, and what others will see, in lines for the terminal.
    """

    files: Mapping[str, Path]
    card: str
    notes: Sequence[str] = ()


def shared(place: str | Path, hub: HubName, runs: Sequence[str | Path] = ()) -> Shared:
    """Read what is to be uploaded, and write its card.

    Args:
        place: Learngene file, or folder of a descendant.
        hub: Where it is uploaded to.
        runs: Folders of runs, or files of results, whose numbers the card shows; by default the run of a learngene.

    Raises:
        UserError: If it is neither, is damaged, or the results cannot be read.
    """
    path, listed, notes = Path(place), [str(run) for run in runs], list[str]()
    if path.name.endswith(SUFFIX):
        learngene = Learngene.load(path)
        card, files, texts = _card_of_learngene(learngene, hub, path.name), {path.name: path}, [learngene.ancestor]
        own = path.parent / RESULTS
        listed = [str(own)] if not listed and own.is_file() else listed
    elif (path / WEIGHTS).is_file():
        record = StartRecord.read(str(path))
        card, texts = _card_of_folder(path, hub, record), list(record.arguments.values()) if record else []
        files = {file: path / file for file in (WEIGHTS, CONFIG, *BESIDE) if (path / file).is_file()}
        left_out = sorted(entry.name for entry in path.iterdir() if entry.name not in {*files, CARD})
        notes += [f"left out  {', '.join(left_out)}"] if left_out else []
    else:
        raise UserError(f"{place}: expected a learngene file (*{SUFFIX}), or a model folder that holds {WEIGHTS}")
    notes += [
        f"note      the files name {text!r}, a path of this machine; everybody who may read the repository sees it"
        for text in texts
        if isinstance(text, str) and path_in(text)
    ]
    return Shared(files, f"{card}\n## Measured\n\n{_measured(listed)}\n", notes)


def _card_of_learngene(learngene: Learngene, hub: HubName, file: str) -> str:
    architecture, tasks = learngene.architecture, learngene.tasks or [str(learngene.task.get("name", UNKNOWN))]
    what = "a hypernetwork" if learngene.content == "hypernetwork" else f"{learngene.num_layers} layers"
    saved = {f"{tag} of the network when it was saved": f"{value:.4g}" for tag, value in learngene.metrics.items()}
    shown = {
        "method": _method(learngene.method),
        "content": f"{what}, {learngene.num_parameters:,} parameters",
        "network": f"{name_of(architecture)}, {architecture.num_classes} classes",
        **_origin("ancestor", learngene.ancestor),
        "data": escape_markdown(", ".join(tasks)),
        **{escape_markdown(key): value for key, value in saved.items()},
        "written by": f"lgx {learngene.lgx_version}",
    }
    code = f"import lgx\n\nmodel = lgx.init({quoted(str(hub))}, {quoted(architecture.spec())})  # or another size"
    summary = f"A learngene of {escape_markdown(learngene.method)}: {file} initializes descendants of several sizes."
    return model_card(hub.repository, "lgx", "learngene, pytorch", summary, shown, {}, code, _WRITER)


def _card_of_folder(path: Path, hub: HubName, record: StartRecord | None) -> str:
    network = load_pretrained(str(path))
    architecture = network.architecture
    shown = {
        "method": _method(record.method) if record else "trained network, or its start is not recorded",
        "network": name_of(architecture) if architecture else type(network.model).__name__,
        "parameters": f"{sum(p.numel() for p in network.model.parameters()):,}",
        "classes": escape_markdown(", ".join(network.label_names))
        or str(getattr(network.model, "num_classes", UNKNOWN)),
        **(_origin("source", str(record.arguments.get("source") or "")) if record else {}),
        "written by": f"lgx {__version__}",
    }
    if hub.inside:  # timm and transformers read whole repositories
        library, tags, arch = "lgx", "learngene", quoted(architecture.spec()) if architecture else "..."
        code = f"import lgx\n\nmodel = lgx.init({quoted(str(hub))}, {arch})"
    elif isinstance(architecture, GPT2Architecture):
        library, tags, model = "transformers", "gpt2, learngene", "AutoModelForSequenceClassification"
        branch = f", revision={quoted(hub.revision)}" if hub.revision else ""
        code = f"from transformers import {model}\n\nmodel = {model}.from_pretrained({quoted(hub.repository)}{branch})"
    else:
        library, tags = "timm", "image-classification, timm, learngene"
        name = quoted(f"hf-hub:{str(hub).removeprefix(HUB)}")
        code = f"import timm\n\nmodel = timm.create_model({name}, pretrained=True)"
    summary = f"A descendant; `lgx init --source {hub} …` reads it as well."
    return model_card(hub.repository, library, tags, summary, shown, {}, code, _WRITER)


def _method(name: str) -> str:
    spec = find_spec(name)
    return escape_markdown(name) if spec is None else f"{spec.label}: {spec.paper}, {spec.url}"


def _origin(what: str, source: str) -> dict[str, str]:
    """Name and license of a source."""
    if not source:
        return {what: "none"}
    return {what: escape_markdown(public_name(source)), f"license of the {what}'s weights": license_of(source)}


def _measured(runs: Sequence[str]) -> str:
    """The measured values of runs as a table."""
    rows = [row for file in find_results(runs) for row in read_rows(file) if row.split != "train"] if runs else []
    if not rows:
        return "No run is known."
    table = piped([_COLUMNS, ("---",) * len(_COLUMNS), *map(_cells, rows)])
    return f"Each row is one run; epochs 0 is a start without training.\n\n{table}"


def _cells(row: Row) -> list[str]:
    value = number(row.value * scale_of(row.metric), row.metric)
    cells = (row.method, row.architecture, row.task, row.split, row.epochs, heading(row.metric), value, row.n, row.seed)
    return [escape_markdown(str(cell)) for cell in cells]
