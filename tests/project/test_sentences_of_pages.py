"""Numbers in sentences of README.md, docs and the cards of the zoo, and sizes of networks, recomputed."""

import re
from pathlib import Path
from statistics import fmean, median, stdev

import pytest
import torch
import yaml

from lgx.architectures import parse_architecture
from lgx.architectures.cost import cost_of
from lgx.core.rows import read_rows
from lgx.hypernet import Hypernet, HypernetConfig
from tests.project.test_performance_page import STEPS, values
from tests.support.paths import EXPERIMENTS, ROOT
from tests.support.sentences import holds, of, page, section, trained, untrained

CARDS = {"sws-digits": "digits", "tleg-digits": "digits", "tal-pocket": "motions", "lsamd-pocket": "persons"}
SIZES = ("width", "layers", "heads", "rank", "max_size", "layout")


def millions(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M"


def hypernetwork(file: str, **options: object) -> Hypernet:
    """The hypernetwork of a configuration, without memory for its weights."""
    chosen = yaml.safe_load((EXPERIMENTS / file).read_text())["model"]
    sizes = {key: value for key, value in chosen["init_args"].items() if key in SIZES}
    decoder = "conv" if chosen["class_path"] == "GHN3" else "low_rank"
    with torch.device("meta"):
        config = {"max_shape": tuple(chosen["init_args"]["max_shape"]), "decoder": decoder, **sizes, **options}
        return Hypernet(HypernetConfig(**config))


def test_sizes_of_hypernetworks():
    sizes = [
        millions(sum(p.numel() for p in hypernetwork(file, num_classes=10, **options).parameters()))
        for file, options in (
            ("ghn/cifar10/logah.yaml", {}),
            ("ghn/cifar10/logah.yaml", {"layout": "residual"}),
            ("ghn/cifar10/ghn3.yaml", {}),
        )
    ]
    logah, residual, ghn3 = (size.removesuffix(" M") for size in sizes)
    text = section("GHN-3 and LoGAH on CIFAR-10")
    holds(text, f"of {logah} M (LoGAH), {residual} M (its residual layout) and {ghn3} M (GHN-3) parameters")
    tal = hypernetwork("tal/mini/stage1.yaml", num_classes=242, task_width=96)
    tal_size = millions(sum(p.numel() for p in tal.parameters()))
    holds(section("TAL on the mini-Decathlon"), f"(TAL's has {tal_size} parameters, rank 64)")
    found = [
        [p.numel() for p in hypernetwork("text/mini/tal.yaml", num_classes=2, vocab_size=50257, **options).parameters()]
        for options in ({}, {"task_width": 96})
    ]
    plainly, with_tasks = (millions(sum(numbers)) for numbers in found)
    fragment = f"in layout aligned {plainly} parameters, TAL's {with_tasks}, half of them the tokens' rows"
    holds(section("GPT-2 on four language tasks"), fragment)
    assert all(0.45 < max(numbers) / sum(numbers) < 0.55 for numbers in found)


def test_sizes_of_descendants_of_deit_tiny():
    own = "num_heads=3,patch_size=8,img_size=64,num_classes=12"
    narrow = own.replace("num_heads=3", "num_heads=2")
    deep, both, wide = (
        millions(cost_of(parse_architecture(name)).parameters)
        for name in (
            f"depth=6,embed_dim=192,{own}",
            f"depth=6,embed_dim=128,{narrow}",
            f"depth=12,embed_dim=128,{narrow}",
        )
    )
    text = section("Descendants of a real ancestor")
    holds(text, f"(6 × 192, {deep} parameters)", f"(6 × 128, {both})", f"(12 × 128, {wide})")


@pytest.mark.parametrize(("name", "task"), CARDS.items())
def test_cards_of_the_zoo_give_the_measured_numbers(name, task):
    rows = [row for row in read_rows(EXPERIMENTS / "zoo/descendants.csv") if (row.split, row.metric) == ("test", "acc")]
    card = (ROOT / f"lgx/artifacts/zoo/{name}.md").read_text()
    for method in ("random", name.split("-")[0]):
        cells = []
        for epochs in (untrained, trained):
            own = [100 * r.value for r in rows if r.method == method and of(f"pocket_{task}", epochs=epochs)(r)]
            assert len(own) == 3
            cells.append(f"{fmean(own):.1f} ± {stdev(own):.1f}")
        assert f"| {method} | {' | '.join(cells)} |" in card
    assert {f"{row.n} examples" for row in rows if row.task == f"pocket_{task}"} <= set(
        re.findall(r"\d+ examples", card)
    )


def test_cost_of_a_step_of_logah():
    found = values()
    tiny, base = (median(found[STEPS[0].format(size), "now"]) for size in ("Tiny", "Base"))
    assert base < 1
    holds(
        page(ROOT / "docs/methods.md"),
        f"in factors for LoGAH: {tiny:.1f} times an ordinary step for a ViT-Tiny and less",
    )


def test_pages_repeat_the_gain_from_a_real_ancestor():
    text = section("Descendants of a real ancestor")
    (span,) = re.findall(r"worth (\d+ to \d+ points)", text)  # recomputed by test_measured_tables.py
    for place in ("README.md", "docs/tutorials/pretrained-vit.md"):
        holds(page(ROOT / place), f"{span} above a random start after three epochs")


def test_the_readme_of_experiments_names_the_steps_of_the_pocket_comparison():
    """Six epochs of whole batches of 64."""
    chosen = yaml.safe_load(Path(EXPERIMENTS / "ghn/pocket/logah.yaml").read_text())
    steps = chosen["trainer"]["max_epochs"] * (7200 // 64)
    holds(
        section("GHN-3 and LoGAH on the pocket pretraining set"), "six epochs of 7,200 images", f"{steps} steps are few"
    )


def test_the_tutorial_says_when_to_expect_no_gain():
    rows = [row for row in read_rows(EXPERIMENTS / "zoo/photographs.csv") if row.split == "test"]
    text = (ROOT / "docs/tutorials/own-images.md").read_text()
    for task, name in (("mini_flowers12", "Flowers"), ("mini_dtd10", "DTD")):
        means = {
            (metric, method): fmean(
                100 * row.value for row in rows if (row.task, row.metric, row.method) == (task, metric, method)
            )
            for metric in ("knn_acc", "acc")
            for method in ("sws", "random")
        }
        assert f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means.values())} |" in text
        assert all(means[metric, "sws"] <= means[metric, "random"] + 0.05 for metric in ("knn_acc", "acc"))
