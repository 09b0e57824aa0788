"""Tables of experiments/README.md on guidance, starts of hypernetworks and two tasks of texts, from the rows."""

from collections.abc import Callable
from statistics import fmean

from lgx.results.statistics import Difference
from tests.project.test_measured_tables import markdown, rows
from tests.support.paths import EXPERIMENTS
from tests.support.sentences import (
    BySeed,
    ahead,
    holds,
    lead,
    measured,
    of,
    plain,
    points,
    section,
    signed,
    spread,
    trained,
    untrained,
)

ALPHAS = {"20": "0.2", "50": "0.5", "80": "0.8"}
TASKS = {"mini_gtsrb": "GTSRB", "mini_flowers12": "Flowers"}
STARTS = {
    "random": "random",
    "random_lr": "random, 4 × learning rate",
    "logah": "LoGAH",
    "logah_noise": "LoGAH, noise",
    "logah_lr": "LoGAH, 4 × learning rate",
    "logah_spectrum": "LoGAH, random spectrum",
    "logah_long": "LoGAH, ten times the steps",
    "ghn3": "GHN-3",
    "ghn3_noise": "GHN-3, noise",
    "ghn3_lr": "GHN-3, 4 × learning rate",
    "ghn3_spectrum": "GHN-3, random spectrum",
}
TEXTS = {"sst2": "SST-2", "imdb_subset": "IMDB (a part)"}
TEXT_METHODS = ("random", "logah", "logah_aligned", "tal")
DEPTHS = (3, 6, 9)


def guided(method: str) -> BySeed:
    """Seed -> accuracy on CIFAR-10 without training, mean over the ViTs."""
    return points(measured("tal_guidance"), method, of("mini_cifar10", epochs=untrained))


def guidance_lines() -> list[str]:
    """Accuracy and lead over the labels alone, by guidance and share of the loss."""
    labels = guided("labels")
    body = [["labels alone", spread(labels), *("–" for _ in list(ALPHAS)[1:])]]
    for guidance in ("features", "logits"):
        own = [guided(f"{guidance}_{share}") for share in ALPHAS]
        body.append([guidance, *map(spread, own)])
        body.append([f"{guidance} − labels", *(lead(values, labels) for values in own)])
    return markdown(["guidance", *(f"α = {alpha}" for alpha in ALPHAS.values())], body)


def norm(guidance: str, alpha: str, part: str, steps: range) -> float:
    """Mean gradient norm of a part of the loss over some steps and all seeds."""
    return fmean(
        float(row["norm"])
        for row in rows("tal_guidance_norms.csv")
        if (row["guidance"], row["alpha"], row["part"]) == (guidance, alpha, part) and int(row["step"]) in steps
    )


def norm_lines() -> list[str]:
    """Gradient norms of the two parts of the loss in the first and the second half."""
    halves = {"first half": range(0, 241), "second half": range(241, 481)}
    body = []
    for guidance in ("features", "logits"):
        for alpha in ALPHAS.values():
            found = [
                norm(guidance, alpha, part, steps)
                for part in ("loss_labels", "loss_guidance")
                for steps in halves.values()
            ]
            body.append([f"{guidance}, α = {alpha}", *(f"{value:.2f}" for value in found)])
    return markdown(["guidance", *(f"{part}, {half}" for part in ("labels", "ancestor") for half in halves)], body)


def start(method: str, task: str, when: Callable[[int], bool] = trained) -> BySeed:
    """Seed -> accuracy of the descendant of four layers of width 96."""
    return points(measured("tal_starts"), method, of(task, "depth=4 embed_dim=96", when))


def start_lines() -> list[str]:
    """Accuracy of descendants before and after training, and the lead over a random start of the same learning rate."""
    body = []
    for method, words in STARTS.items():
        baseline = "random_lr" if method.endswith("_lr") else "random"
        cells = []
        for task in TASKS:
            before, after = (start(method, task, when) for when in (untrained, trained))
            cells += [
                f"{spread(before)} → {spread(after)}",
                "–" if method == baseline else lead(after, start(baseline, task)),
            ]
        body.append([words, *cells])
    return markdown(["start", *(cell for name in TASKS.values() for cell in (name, "against random"))], body)


def text_start(method: str, task: str, depth: int) -> BySeed:
    return points(measured("text_two"), method, of(task, f"gpt2:depth={depth}", untrained))


def gap(one: str, other: str) -> Difference:
    """Lead of one start over another after training, in the mean over the tasks."""
    means = [
        {seed: fmean(start(name, task)[seed] for task in TASKS) for seed in start(name, "mini_gtsrb")}
        for name in (one, other)
    ]
    return ahead(*means)


def by_depth(method: str, task: str) -> BySeed:
    """Seed -> accuracy of a method on texts, mean over the depths."""
    cells = [text_start(method, task, depth) for depth in DEPTHS]
    return {seed: fmean(cell[seed] for cell in cells) for seed in cells[0]}


def text_lines() -> list[str]:
    """Accuracy of GPT-2s of width 128 without training."""
    body = [
        [method, *(spread(text_start(method, task, depth)) for task in TEXTS for depth in DEPTHS)]
        for method in TEXT_METHODS
    ]
    return markdown(["method", *(f"{name}, {depth} layers" for name in TEXTS.values() for depth in DEPTHS)], body)


def test_guidance_by_a_real_ancestor() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for line in [*guidance_lines(), *norm_lines()]:
        assert line in text, line
    page = section("Guidance by a real ancestor")
    whole = points(measured("tal_guidance"), "ancestor", of("mini_cifar10"))
    holds(page, f"where it has {spread(whole)} %")
    labels, kinds = guided("labels"), [f"{guidance}_{share}" for guidance in ("features", "logits") for share in ALPHAS]
    leads = [ahead(guided(kind), labels) for kind in kinds]
    assert not any(found.claimable for found in leads)
    means = sorted(found.summary.mean for found in leads)
    of_all = {seed: fmean(guided(kind)[seed] for kind in kinds) for seed in labels}
    holds(
        page,
        f"by {means[0]:.1f} to {means[-1]:.1f} points, and in the mean over them by {plain(ahead(of_all, labels))}",
    )
    logits = [ahead(guided(f"logits_{share}"), guided(f"features_{share}")) for share in ALPHAS]
    assert not any(found.claimable for found in logits)
    holds(page, f"is {signed(logits[0])}, {signed(logits[1])} and {signed(logits[2])}")
    for guidance, least, most in (("features", 0.3, 0.52), ("logits", 0.87, 1.0)):
        for alpha in ALPHAS.values():
            norms = [norm(guidance, alpha, part, range(481)) for part in ("loss_guidance", "loss_labels")]
            assert least < norms[0] / norms[1] < most, (guidance, alpha, norms)


def test_starts_from_hypernetworks() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for line in start_lines():
        assert line in text, line
    page = section("Why starts of LoGAH and GHN-3 train badly")
    flat = [lead(start("logah_spectrum", task), start("logah", task)).removesuffix(r"\*") for task in reversed(TASKS)]
    holds(page, f"gain {flat[0][1:]} points on Flowers and {flat[1][1:]} on GTSRB")
    holds(page, f"They stay {plain(gap('logah_spectrum', 'random'))} below random starts in the mean")
    holds(page, f"GHN-3 gains {plain(gap('ghn3_spectrum', 'ghn3'))} points by it, which is not significant")
    noise = [gap("logah_noise", "logah"), gap("ghn3_noise", "ghn3")]
    assert not any(found.claimable for found in (*noise, gap("ghn3_spectrum", "ghn3")))
    holds(page, f"noise changes the mean by {plain(noise[0])} points (LoGAH) and {signed(noise[1])} (GHN-3)")
    rates = [plain(gap(f"{name}_lr", "random_lr")) for name in ("logah", "ghn3")]
    holds(page, f"both stay below a random start by {rates[0]} and {rates[1]}")
    short, long = (fmean(start(name, "mini_flowers12", untrained).values()) for name in ("logah", "logah_long"))
    on_gtsrb, on_flowers = (ahead(start("logah_long", task), start("logah", task)) for task in TASKS)
    longer = gap("logah_long", "logah")
    assert not any(found.claimable for found in (longer, on_gtsrb, on_flowers))
    holds(
        page,
        f"they change the mean by {signed(longer)} points, on GTSRB by {signed(on_gtsrb)} and on Flowers by "
        f"{signed(on_flowers)}, although it has {long:.1f} % there untrained, in place of {short:.1f}.",
    )


def test_two_tasks_of_texts() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for line in text_lines():
        assert line in text, line
    page = section("Two tasks of one kind")
    of_both = {name: {s: fmean(by_depth(name, task)[s] for task in TEXTS) for s in range(5)} for name in TEXT_METHODS}
    holds(
        page, f"is ahead of two LoGAHs by {plain(ahead(of_both['tal'], of_both['logah_aligned']))} points in the mean"
    )
    on_imdb, on_sst2 = (
        ahead(by_depth("tal", task), by_depth("logah_aligned", task)) for task in ("imdb_subset", "sst2")
    )
    holds(page, f"by {plain(on_imdb)} on IMDB", f"on SST-2 it is {plain(on_sst2)} behind")
    assert on_imdb.claimable
    assert not on_sst2.claimable
    constant = [text_start("logah", task, depth) for task in TEXTS for depth in DEPTHS]
    assert {round(value, 1) for cell in constant for value in cell.values()} == {50.9, 50.0}
