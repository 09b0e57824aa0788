"""Numbers of docs/performance and of the README's tables of costs, recomputed from the committed values."""

import csv
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance"
BEFORE, BETWEEN = "0ccd4be", "73b9469"
STEPS = "LoGAH step / ordinary step, ViT-{}", "dense prediction / bare products, ViT-{}"


def values() -> dict[tuple[str, str], list[float]]:
    """(what, ``before``, ``between`` or ``now``) -> measured values."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with (PAGE / "cpu.csv").open() as file:
        for row in csv.DictReader(file):
            when = {BEFORE: "before", BETWEEN: "between"}.get(row["code"], "now")
            found[row["what"], when].append(float(row["value"]))
    return found


def span(numbers: list[float]) -> str:
    digits = 0 if max(numbers) >= 100 else 1 if max(numbers) >= 5 else 2
    least, most = f"{min(numbers):,.{digits}f}", f"{max(numbers):,.{digits}f}"
    return least if least == most else f"{least} to {most}"


def test_the_table_of_the_page_gives_the_measured_ranges() -> None:
    found, text = values(), (PAGE / "README.md").read_text()
    labels = {
        "`lgx fit` step / bare loop, 0 loader processes": "fit step / bare loop, 0 loader processes",
        "`lgx fit` step / bare loop, 2 loader processes": "fit step / bare loop, 2 loader processes",
        "`lgx fit` step, ms": "fit step, 0 loader processes",
        "bare loop, ms": "bare loop",
        "command to the first step, s": "lgx fit, one step",
        "imports of torch, lightning, torchmetrics, torchvision and timm, s": (
            "imports of lightning, torchmetrics, torchvision, timm"
        ),
        "`lgx data list`, s": "lgx data list",
        "mistake in a configuration, s": "typo in a configuration",
        "`lgx --help`, s": "lgx --help",
        **{f"LoGAH step / ordinary step, ViT-{s}, batch 8": STEPS[0].format(s) for s in ("Tiny", "Small", "Base")},
        **{f"GHN-3 step / ordinary step, ViT-{s}, batch 8": f"GHN-3 step / ordinary step, ViT-{s}"
           for s in ("Tiny", "Small")},
        **{STEPS[1].format(s): STEPS[1].format(s) for s in ("Tiny", "Small", "Base")},
    }  # fmt: skip
    for label, what in labels.items():
        assert len(found[what, "before"]) == len(found[what, "now"]) == 5, what
        assert f"| {label} | {span(found[what, 'before'])} | {span(found[what, 'now'])} |" in text, label
    for way in ("torchvision", "webdataset", "folder", "shards", "cache"):
        rates = [span(found[f"images per second, {way}, {n} loader processes", "now"]) for n in (0, 2)]
        assert f"| {way} | {rates[0]} | {rates[1]} |" in text
    sentences = " ".join(text.split())
    for width in (64, 96):
        what = f"TAL step / ordinary step, 5 layers of width {width}, rank 64"
        now, before = (span(found[what, when]) for when in ("now", "between"))
        assert f"{now} instead of {before}" in sentences


def test_the_readme_gives_the_measured_costs() -> None:
    found, text = values(), (ROOT / "README.md").read_text()
    sizes = ("Tiny", "Small", "Base")
    lines = {
        "training step / ordinary step": STEPS[0],
        "all weights dense / bare products of their factors": STEPS[1],
        "peak memory of an ordinary step, MiB": "memory of an ordinary step, ViT-{}",
        "peak memory of a step of LoGAH, MiB": "memory of a LoGAH step, ViT-{}",
    }
    for label, what in lines.items():
        assert f"| {label} | {' | '.join(span(found[what.format(size), 'now']) for size in sizes)} |" in text, label
    others = [span(found[f"{STEPS[0].format(size)}, other machines", "before"]) for size in sizes]
    assert f"{others[0]}, {others[1]} and {others[2]}" in text
