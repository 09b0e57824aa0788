"""Facts of a trained network for its model card: task, scores, seed, commit, method and start, from its run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lgx.architectures import Architecture, full_name
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safetensors_files import StartRecord
from lgx.artifacts.sources import Source, is_learngene
from lgx.core.rows import Row
from lgx.core.schema import LINE
from lgx.core.task import BALANCED
from lgx.results.metrics import heading, scale_of
from lgx.results.run_records import RunRecord


def model_facts(
    source: Source, architecture: Architecture | None = None, scores: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Facts on a trained network that is exported, for its model card.

    Scores come from the rows of ``results.csv`` with the same number of epochs; those of the test only for the weights
    that the run tested. Without the run's folder, a learngene has the scores in its file.

    Args:
        source: Checkpoint or learngene file, also from elsewhere; a folder that ``lgx init`` wrote gives the facts of
            its start.
        architecture: The chosen network of a source with several networks.
        scores: The scores of this network by tag; None for a source of one network.

    Returns:
        Name -> plain value; ``trained`` is only in the facts of trained networks, and ``method`` without it only in
        those of starts.
    """
    place = source.place
    if not is_learngene(place) and not place.endswith(".ckpt"):
        record = StartRecord.read(place)
        return _plain({"method": record.method, "source": record.arguments.get("source")}) if record else {}
    about = _in_file(place)
    task = about["task"]
    in_file = about.get("metrics", {}) if scores is None else scores
    folder = Path(place).resolve().parent
    run = RunRecord.at(folder.parent if folder.name == "checkpoints" else folder)
    rows = [row for row in run.rows if row.task == task.get("name") and row.split != "train"]
    if architecture is not None and scores is not None:
        rows = [row for row in rows if row.architecture == full_name(architecture)]
    epochs, of_file = _of_weights(place, run, rows, about.get("epochs"))
    main = task.get("metric", "acc")
    metrics = ("acc", BALANCED) if main in ("acc", BALANCED) else (main,)
    shown = [row for row in of_file if row.metric in metrics]
    first = next(iter(shown or rows), None)
    of_run = first and {
        "seed": first.seed,
        "run": first.run,
        "config_hash": first.config,
        "commit": first.commit,
    }
    return _plain(
        {
            "trained": True if epochs is None else f"{epochs} epoch{'' if epochs == 1 else 's'}",
            "task": task.get("name"),
            **(_measured(shown) or {tag: round(value, 6) for tag, value in in_file.items()}),
            "method": about["method"],
            "start": _start(run),
            **about.get("versions", {}),
            **(of_run or {}),
            "source": source.name,
        }
    )


def _in_file(place: str) -> dict[str, Any]:
    """Method and task in a file; epochs in a checkpoint, metrics and versions in a learngene."""
    if not is_learngene(place):
        about = load_checkpoint(place)["lgx"]
        return {key: about.get(key) for key in ("method", "epochs")} | {"task": about.get("task", {})}
    learngene = Learngene.load(place)
    versions = {"ancestor": learngene.ancestor, "lgx": learngene.lgx_version}
    return {"method": learngene.method, "task": learngene.task, "metrics": learngene.metrics, "versions": versions}


def _of_weights(place: str, run: RunRecord, rows: Sequence[Row], epochs: int | None) -> tuple[int | None, list[Row]]:
    """The epochs of the weights in a file of a run, and the rows that were measured with them."""
    kind = run.summary.get("weights") if run.exists else None
    is_tested = kind is None or is_learngene(place) or {"final": "last"}.get(Path(place).stem, Path(place).stem) == kind
    if epochs is None:  # a learngene, which has the weights that the run tested
        tested = [row.epochs for row in rows if row.split == "test" and row.epochs]
        epochs = (min if kind == "best" else max)(tested, default=None)
    return epochs, [row for row in rows if row.epochs == epochs and (is_tested or row.split != "test")]


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that are known, as numbers and lines of text; a foreign file may hold anything."""
    return {
        key: value
        for key, value in facts.items()
        if value is True or type(value) in (int, float) or (LINE.holds(value) and value != "")
    }


def _measured(rows: Sequence[Row]) -> dict[str, float]:
    """Scores by split as tables show them; the test split comes first."""
    ordered = sorted(rows, key=lambda row: row.split)
    return {f"{heading(row.metric)}, {row.split} split": round(scale_of(row.metric) * row.value, 4) for row in ordered}


def _start(run: RunRecord) -> str | None:
    """The start of the run's network, from its configuration."""
    if not run.exists or not run.start.name:
        return None
    source = run.start.arguments.get("source")
    return f"{run.start.name} from {source}" if source else run.start.name
