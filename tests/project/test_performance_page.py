"""Numbers of docs/performance and of docs/hypernetworks.md, recomputed from the committed values."""

import csv
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance"
BEFORE, BETWEEN, EARLIER = "0ccd4be", "73b9469", "a3f12aa"
STEPS = "LoGAH step / ordinary step, ViT-{}", "dense prediction / bare products, ViT-{}"


def values(name: str = "cpu.csv") -> dict[tuple[str, str], list[float]]:
    """(what, ``before``, ``between``, ``earlier`` or ``now``) -> measured values."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with (PAGE / name).open() as file:
        for row in csv.DictReader(file):
            when = {BEFORE: "before", BETWEEN: "between", EARLIER: "earlier"}.get(row["code"], "now")
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
    again = values("fourth_machine.csv")
    for way in ("torchvision", "webdataset", "folder", "shards", "cache"):
        what = [(f"images per second, {way}, {n} loader processes", "now") for n in (0, 2)]
        assert all(len(again[key]) == 5 for key in what)
        assert f"| {way} | {' | '.join(span(where[key]) for where in (found, again) for key in what)} |" in text
    sentences = " ".join(text.split())
    for width in (64, 96):
        what = f"TAL step / ordinary step, 5 layers of width {width}, rank 64"
        now, before = (span(found[what, when]) for when in ("now", "between"))
        assert f"{now} instead of {before}" in sentences


def test_the_table_of_the_second_machine_gives_the_measured_ranges() -> None:
    found, text = values("second_machine.csv"), (PAGE / "README.md").read_text()
    epoch, headers = "further run of one epoch in a sweep", "headers of 45,000 images, {} run"
    before = {when: span(found[headers.format(when), "earlier"]) for when in ("first", "later")}
    now = {when: span(found[headers.format(when), "now"]) for when in ("first", "later")}
    teacher = [
        span(found[f"step of SWS, features of DeiT-Tiny {how}", "now"]) for how in ("asked in each step", "kept")
    ]
    assert f"(300 images of 64 px), s | {span(found[epoch, 'before'])} | {span(found[epoch, 'now'])} |" in text
    assert f"first run | {float(before['first']):.1f} | {float(now['first']):.1f} |" in text
    assert f"later runs | {before['later']} | {now['later']} |" in text
    assert f"as teacher, ms | {teacher[0]} | {teacher[1]} with `model.cache_ancestor` |" in text
    for label, what in (
        ("`lgx data list`, from the second time on", "lgx data list, again"),
        ("misspelt option, from the second command on", "typo in a configuration, again"),
        ("`make demo` after installation", "make demo after installation"),
        ("the fast tests", "fast tests"),
    ):
        assert f"| {label}, s | – | {span(found[what, 'now'])} |" in text, label
    for method in ("Finetune", "SWS", "TLEG", "LSAMD", "TAL, stage 1", "TAL, stage 2"):
        ratio, step = (span(found[f"{what}, {method}", "now"]) for what in ("step / bare loop", "step"))
        assert f"| {method} | {step} | {ratio} |" in text, (method, step, ratio)


def test_the_page_of_hypernetworks_gives_the_measured_costs() -> None:
    found, text = values(), (ROOT / "docs/hypernetworks.md").read_text()
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


def test_the_table_of_the_third_machine_gives_the_measured_ranges() -> None:
    found, text = values("third_machine.csv"), (PAGE / "README.md").read_text()
    for label, what in (
        ("imports of torch, lightning, torchmetrics, torchvision and timm, s", "imports"),
        ("command to the first step, s", "command to the first step"),
        ("a whole command that trains for one epoch, s", "whole command of a run of one epoch"),
        (
            "each further run of one epoch in a sweep (300 images, 4 layers of width 64), s",
            "further run of one epoch in a sweep",
        ),
        ("`make demo` after installation, s", "make demo after installation"),
    ):
        assert len(found[what, "before"]) == len(found[what, "now"]) == 5
        assert f"| {label} | {span(found[what, 'before'])} | {span(found[what, 'now'])} |" in text, label
    again = values("fourth_machine.csv")
    for when in ("before", "now"):
        assert len(again["make test after installation", when]) == 5
    for label, where in (("`make test` after installation, s", found), ("the same on the fourth machine, s", again)):
        before, now = (span(where["make test after installation", when]) for when in ("before", "now"))
        assert f"| {label} | {before} | {now} |" in text
    for when in ("before", "now"):
        run, lines = (found[what, when][0] for what in ("lines of code that the fast tests run", "lines of code"))
        assert f"{100 * run / lines:.1f} % of {lines:,.0f}" in " ".join(text.split())
