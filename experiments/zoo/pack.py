"""Put the learngenes of experiments/zoo/learngenes.yaml into the package, with an index and cards.

``python experiments/zoo/pack.py files`` stores the trained learngenes in float16 and writes the index;
``python experiments/zoo/pack.py cards`` adds what experiments/zoo/descendants.yaml measured.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.safety import digest_of
from lgx.artifacts.zoo import FOLDER, INDEX, ZooEntry, zoo
from lgx.core.rows import Row, read_rows
from lgx.host.files import atomic_path
from lgx.methods.registry import specs

RUNS = Path("runs/zoo")
RESULTS = Path("experiments/zoo/descendants.csv")
_DIGITS = "the scanned digits of scikit-learn (pocket task `digits`, 32 px)"
_ORDER = ("random", "tleg", "sws", "lsamd", "tal")


@dataclass(frozen=True)
class Planned:
    """A learngene of the zoo.

    Attributes:
        name: Its name.
        method: The method, and the name of the run.
        starts: Sizes that it starts.
        data: What it was trained on.
        task: The task on which descendants were measured.
        arch: A descendant, for the example.
        option: Further option of the example, with a space before it.
        has_new_head: Whether the measured descendants have a new head.
    """

    name: str
    method: str
    starts: str
    data: str
    task: str
    arch: str
    option: str = ""
    has_new_head: bool = False


_NARROW = "depth=8,embed_dim=48,num_heads=3,patch_size=8,img_size=32"
PLANNED = (
    Planned("sws-digits", "sws", "ViTs of 4 layers and more, width 48 or less", _DIGITS, "digits", _NARROW),
    Planned("tleg-digits", "tleg", "ViTs of 2 layers and more, width 48 or less", _DIGITS, "digits", _NARROW),
    Planned(
        "lsamd-pocket",
        "lsamd",
        "ViTs of as many layers as were selected and more, width 96 or less",
        "an ancestor of the pocket task `world`; the layers that at least one of digits, "
        "textures, signs, persons and roses keeps",
        "persons",
        "depth=6,embed_dim=96,num_heads=3,img_size=32,patch_size=8",
        " --head 2",
        has_new_head=True,
    ),
    Planned(
        "tal-pocket",
        "tal",
        "ViTs of any depth, width 768 or less; trained on 2 to 6 layers of width 64 and 96",
        "the pocket task `world`; tuned on digits, motions, roses and silhouettes",
        "motions",
        "depth=5,embed_dim=64,num_heads=2,img_size=32,patch_size=8",
        " --task pocket_motions",
    ),
)


def write_files() -> None:
    """Store the learngenes in float16, and write the index."""
    entries = []
    for planned in PLANNED:
        learngene = Learngene.load(RUNS / planned.method / "seed0" / f"best{SUFFIX}")
        path = FOLDER / f"{planned.name}{SUFFIX}"
        replace(learngene, tensors={name: tensor.half() for name, tensor in learngene.tensors.items()}).save(path)
        starts = planned.starts.replace("as many layers as were selected", f"{learngene.num_layers} layers")
        size, digest = path.stat().st_size, digest_of(path)
        entries.append(ZooEntry(planned.name, planned.method, starts, 32, planned.data, "", size, digest))
        print(f"{path}: {size:,} bytes")
    _write_index(entries)


def write_cards() -> None:
    """Write what was measured into the index and the cards."""
    rows = [row for row in read_rows(RESULTS) if row.split == "test" and row.metric == "acc"]
    entries = []
    for planned in PLANNED:
        entry, own = zoo()[planned.name], [row for row in rows if row.task.removeprefix("pocket_") == planned.task]
        own = [row for row in own if row.method in (planned.method, "random")]
        measured = _measured(own)
        words = "; ".join(f"{method} {start} untrained, {end} trained" for method, start, end in measured)
        seeds = len({row.seed for row in own})
        entry = replace(entry, measured=f"test accuracy (%) on {planned.task}, {seeds} seed(s): {words}")
        entries.append(entry)
        with atomic_path(entry.card) as temporary:
            temporary.write_text(_card(planned, entry, own, measured), encoding="utf-8")
    _write_index(entries)


def _write_index(entries: Sequence[ZooEntry]) -> None:
    with atomic_path(INDEX) as temporary:
        temporary.write_text(json.dumps([asdict(entry) for entry in entries], indent=1) + "\n", encoding="utf-8")


def _measured(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Method, and mean and standard deviation over seeds of its accuracy, untrained and trained."""
    values: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for row in rows:
        values[row.method, row.epochs > 0].append(100 * row.value)
    methods = sorted({method for method, _ in values}, key=_ORDER.index)
    return [(method, _shown(values[method, False]), _shown(values[method, True])) for method in methods]


def _shown(values: Sequence[float]) -> str:
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{spread}" if values else "–"


def _card(planned: Planned, entry: ZooEntry, rows: Sequence[Row], measured: Sequence[tuple[str, str, str]]) -> str:
    spec = specs()[planned.method]
    note = "\nThe head of this descendant is new: untrained, it can only guess." if planned.has_new_head else ""
    storage = f"float16, {entry.size:,} bytes"
    if not planned.has_new_head:
        storage += "; the untrained accuracy below is that of the float32 file as well"
    epochs, n, seeds = max(row.epochs for row in rows), rows[0].n, len({row.seed for row in rows})
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in measured)
    return f"""# {planned.name}

A learngene for demonstrations: small, of 32 px images, and trained for minutes on generated or small data. It shows the
commands and gives tests a start. It says nothing about natural images, and its numbers nothing about the method.

| fact | value |
| --- | --- |
| method | {spec.label}: {spec.paper}, {spec.url} |
| starts | {entry.starts} |
| data | {entry.data}; generated by lgx, except the digits, which come with scikit-learn |
| ancestor | trained from scratch for this learngene |
| storage | {storage} |
| license | that of lgx |

Test accuracy (%) on the pocket task `{planned.task}`, {n} examples, mean ± standard deviation over
{seeds} seed(s) of the descendant; one learngene, of seed 0. The descendant is `{planned.arch}`, trained for
{epochs} epochs. The learngene has learned the training split of the same task; the random start has not.{note}

| start | untrained | trained |
| --- | ---: | ---: |
{table}

```bash
lgx init --source zoo:{planned.name} --arch {planned.arch}{planned.option} --out vit
```

Made by the commands in `experiments/zoo/learngenes.yaml`; the measured rows are in `{RESULTS}`.
"""


if __name__ == "__main__":
    {"files": write_files, "cards": write_cards}[sys.argv[1]]()
