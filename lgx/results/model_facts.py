"""Facts of a trained network for its model card: task, scores, seed, commit, method and start, from its run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lgx.architectures import Architecture, full_name
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safetensors_files import StartRecord
from lgx.artifacts.source_names import public_name, public_path
from lgx.artifacts.sources import Source, is_learngene
from lgx.core.provenance import config_hash
from lgx.core.rows import Row
from lgx.core.schema import LINE
from lgx.core.task import BALANCED
from lgx.results.metrics import heading, scale_of
from lgx.results.run_records import RunRecord


class _File(NamedTuple):
    """The description in a checkpoint or learngene.

    Attributes:
        folder: The folder of its run.
        method: Name of its method.
        task: Name of its task; None if missing.
        metric: The task's main metric.
        epochs: Epochs of training; None if missing.
        scores: Scores in a learngene, e.g. of ``val/acc``.
        versions: Hash of the configuration, commit of the code and versions of libraries, if present.
    """

    folder: Path
    method: str | None
    task: str | None
    metric: str
    epochs: int | None
    scores: Mapping[str, float]
    versions: Mapping[str, object]


def model_facts(
    source: Source, architecture: Architecture | None = None, scores: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Facts on a trained network that is exported, for its model card.

    Scores come from the rows of ``results.csv`` with the same number of epochs; those of the test only for the weights
    that the run tested. Without the run's folder, a learngene has the scores in its file.

    Args:
        source: Checkpoint or learngene file, also from elsewhere; a folder that ``lgx init`` wrote
            gives the facts of its start. Paths in the facts are shortened, because the card is public.
        architecture: The chosen network of a source with several networks.
        scores: The scores of this network by tag; None for a source of one network.

    Returns:
        Name -> plain value; ``trained`` is only in the facts of trained networks, and ``method`` without it only in
        those of starts.
    """
    place = source.place
    if is_learngene(place):
        facts = _of_learngene(place)
    elif place.endswith(".ckpt"):
        facts = _of_checkpoint(place)
    else:
        record = StartRecord.read(place)
        return _plain({"method": record.method, "source": _public(record.arguments.get("source"))}) if record else {}
    run = RunRecord.at(facts.folder)
    rows = [row for row in run.rows if row.task == facts.task and row.split != "train"]
    if architecture is not None and scores is not None:
        facts = facts._replace(scores=scores)
        rows = [row for row in rows if row.architecture == full_name(architecture)]
    metrics = ("acc", BALANCED) if facts.metric in ("acc", BALANCED) else (facts.metric,)
    kind = run.summary.get("weights") if run.exists else None
    is_tested = kind is None or is_learngene(place) or {"final": "last"}.get(Path(place).stem, Path(place).stem) == kind
    epochs = facts.epochs
    if epochs is None:  # a learngene, which has the weights that the run tested
        tested = [row.epochs for row in rows if row.split == "test" and row.epochs]
        epochs = (min if kind == "best" else max)(tested, default=None)
    of_file = [row for row in rows if row.epochs == epochs and (is_tested or row.split != "test")]
    shown = [row for row in of_file if row.metric in metrics]
    first = next(iter(shown or rows), None)
    return _plain(
        {
            "trained": True if epochs is None else f"{epochs} epoch{'' if epochs == 1 else 's'}",
            "task": facts.task,
            **(_measured(shown) or {tag: round(value, 6) for tag, value in facts.scores.items()}),
            "seed": first.seed if first else None,
            "method": facts.method,
            "start": _start(run),
            "run": public_path(first.run) if first else None,
            **facts.versions,
            **({"commit": first.commit} if first and first.commit else {}),
            "source": public_name(str(Path(place).resolve()) if source.name == place else source.name),
        }
    )


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that are known, as numbers and lines of text; a foreign file may hold anything."""
    return {
        key: value
        for key, value in facts.items()
        if value is True or type(value) in (int, float) or (LINE.holds(value) and value != "")
    }


def _of_checkpoint(source: str) -> _File:
    checkpoint = load_checkpoint(source)
    about = checkpoint["lgx"]
    run = _mapping(checkpoint.get("lgx_run"))
    folder = Path(source).resolve().parent
    task = _mapping(about.get("task"))
    config = run.get("config")
    epochs = about.get("epochs")
    of_config = {"config_hash": config_hash(config)} if isinstance(config, str) else {}
    versions = _mapping(run.get("versions"))
    return _File(
        folder.parent if folder.name == "checkpoints" else folder,
        about.get("method"),
        task.get("name"),
        task.get("metric", "acc"),
        epochs if isinstance(epochs, int) else None,
        {},
        of_config | {name: versions.get(name) for name in ("commit", "lgx", "torch", "timm")},
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _of_learngene(source: str) -> _File:
    learngene = Learngene.load(source)
    task = learngene.task
    folder = Path(source).resolve().parent
    versions = {"ancestor": public_name(learngene.ancestor), "lgx": learngene.lgx_version}
    name, metric = task.get("name"), task.get("metric", "acc")
    return _File(folder, learngene.method, name, metric, None, learngene.metrics, versions)


def _measured(rows: Sequence[Row]) -> dict[str, float]:
    """Scores by split as tables show them; the test split comes first."""
    ordered = sorted(rows, key=lambda row: row.split)
    return {f"{heading(row.metric)}, {row.split} split": round(scale_of(row.metric) * row.value, 4) for row in ordered}


def _start(run: RunRecord) -> str | None:
    """The start of the run's network, from its configuration."""
    if not run.exists or not run.start.name:
        return None
    source = _public(run.start.arguments.get("source"))
    return f"{run.start.name} from {source}" if source else run.start.name


def _public(source: object) -> str | None:
    return public_name(source) if isinstance(source, str) else None
