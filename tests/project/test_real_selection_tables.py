"""Tables of experiments/README.md on LSAMD's descendants of a real ancestor, recomputed from the rows."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

from tests.project.test_measured_tables import TASKS, deit_tiny, markdown, percent, rows
from tests.support.paths import EXPERIMENTS
from tests.support.sentences import ahead, holds, lead, paper, section, signed

Cell = dict[int, float]
STARTS = {
    "random": "random",
    "random_long": "random, 12 epochs",
    "layer_choice_first": "the first 8 layers",
    "lsamd": "LSAMD, last stage first",
    "lsamd_last": "LSAMD, last stage only",
    "lsamd_first": "LSAMD, first stage only",
    "pretrained": "the whole ancestor",
}
EIGHT = [(8, f"mini_{task}") for task in TASKS]
TWELVE = [(12, f"mini_{task}") for task in TASKS]
DEPTHS_OF_RANDOM = [*EIGHT, *TWELVE]
SETS = {
    "mini_cifar10": "CIFAR-10",
    "mini_gtsrb": "GTSRB",
    "mini_dtd10": "DTD",
    "mini_flowers12": "Flowers",
    "mini_tiny_imagenet": "Tiny-ImageNet",
}
OTHERS = {
    "random": "random",
    "vanilla_lg": "Vanilla-LG",
    "tleg": "TLEG",
    "sws": "SWS, labels",
    "sws_features": "SWS, features only",
}


def shares(name: str) -> dict[tuple[str, int, str, int], Cell]:
    """(method, layers, task, epochs) -> seed -> share of the test."""
    found: dict[tuple[str, int, str, int], Cell] = defaultdict(dict)
    for row in rows(name):
        if (row["metric"], row["split"]) == ("acc", "test"):
            depth = int(row["architecture"].split(",")[0].removeprefix("depth="))
            found[row["method"], depth, row["task"], int(row["epochs"])][int(row["seed"])] = float(row["value"])
    return found


def descendants() -> dict[tuple[str, int, str], Cell]:
    """(start, layers, task) -> seed -> share after training."""
    found = shares("lsamd_real_descendants.csv")
    return {(method, depth, task): cell for (method, depth, task, _), cell in found.items()}


def difference(one: Cell, other: Cell) -> str:
    """A paired difference in points; * where its interval excludes 0."""
    return lead({s: 100 * v for s, v in one.items()}, {s: 100 * v for s, v in other.items()})


def six_lines() -> list[str]:
    """Table 1 and Figures 4 and 5: six layers, beside the other starts from the real ancestor."""
    own = {task: descendants()["lsamd", 6, f"mini_{task}"] for task in TASKS}
    others = deit_tiny()
    body = [["LSAMD", *(cell for task in TASKS for cell in (percent(own[task]), "–"))]]
    for start, words in OTHERS.items():
        cells = [others["acc", task, "depth", start] for task in TASKS]
        body.append(
            [words, *(c for t, o in zip(TASKS, cells, strict=True) for c in (percent(o), difference(own[t], o)))]
        )
    return markdown(["start", *(cell for name in TASKS.values() for cell in (name, "LSAMD − this"))], body)


def depth_lines() -> list[str]:
    """Table 2 and Figures 4 to 6: descendants of 8 and 12 layers."""
    found, body = descendants(), []
    columns = [(depth, task) for task in TASKS for depth in (8, 12)]
    for start, words in STARTS.items():
        cells = [found.get((start, depth, f"mini_{task}")) for depth, task in columns]
        body.append([words, *("–" if cell is None else percent(cell) for cell in cells)])
    return markdown(["start", *(f"{name}, {depth} layers" for name in TASKS.values() for depth in (8, 12))], body)


def routing_lines() -> list[str]:
    """Table 3: the super ancestor, routed by batch and by image."""
    found = shares("lsamd_real.csv")
    body = [
        [words, *(percent(found[method, 12, task, 1]) for task in SETS)]
        for method, words in (("lsamd", "batch"), ("lsamd_image", "image"))
    ]
    return markdown(["routing", *SETS.values()], body)


def mean_of(start: str, cells: Iterable[tuple[int, str]]) -> Cell:
    """Seed -> percent, mean over pairs of depth and task."""
    found = descendants()
    return {seed: 100 * fmean(found[start, *cell][seed] for cell in cells) for seed in range(3)}


def gain(one: str, other: str, cells: Iterable[tuple[int, str]]) -> str:
    """Lead of one start over another, mean over pairs of depth and task."""
    return signed(ahead(*(mean_of(start, list(cells)) for start in (one, other)))).lstrip("+")


def gap(other: str) -> str:
    """Lead of LSAMD with six layers over a start of the other table, mean over the tasks."""
    found, own = deit_tiny(), mean_of("lsamd", [(6, f"mini_{task}") for task in TASKS])
    others = {seed: 100 * fmean(found["acc", task, "depth", other][seed] for task in TASKS) for seed in range(3)}
    return signed(ahead(own, others))


def by_seed_words(start: str, depth: int, task: str) -> str:
    """The three shares in percent, by seed."""
    values = [f"{100 * value:.1f}" for _, value in sorted(descendants()[start, depth, task].items())]
    return f"{values[0]}, {values[1]} and {values[2]}"


def gain_of_routing() -> str:
    """Lead of routing by batch, mean over the sets."""
    found = shares("lsamd_real.csv")
    one, other = (
        {seed: 100 * fmean(found[method, 12, task, 1][seed] for task in SETS) for seed in range(3)}
        for method in ("lsamd", "lsamd_image")
    )
    return signed(ahead(one, other))


def test_descendants_of_a_real_ancestor_by_lsamd() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for line in [*six_lines(), *depth_lines(), *routing_lines()]:
        assert line in text, line
    assert all(sorted(cell) == [0, 1, 2] for cell in descendants().values())


def test_conclusions_on_descendants_of_lsamd() -> None:
    text = section("Descendants of LSAMD with a real ancestor")
    by_seed = [by_seed_words("lsamd", 8, f"mini_{task}") for task in TASKS]
    holds(text, f"have {by_seed[0]} % on Flowers and {by_seed[1]} on DTD from the learngenes of seeds 0, 1 and 2")
    assert ahead(mean_of("lsamd", DEPTHS_OF_RANDOM), mean_of("random", DEPTHS_OF_RANDOM)).claimable
    assert not ahead(mean_of("lsamd", EIGHT), mean_of("random_long", EIGHT)).claimable
    holds(
        text,
        f"with 8 and 12 layers by {gain('lsamd', 'random', DEPTHS_OF_RANDOM)} points in the mean",
        f"ahead by {gain('lsamd', 'random_long', EIGHT)} points, which is not significant",
        f"ahead of TLEG ({gap('tleg')} in the mean of both sets), "
        f"and not significantly of SWS ({gap('sws')} and, without labels, {gap('sws_features')})",
        f"eight first layers are {gain('layer_choice_first', 'lsamd', EIGHT)} points ahead in the mean",
        f"the pretrained network is {gain('pretrained', 'lsamd', TWELVE)} points ahead",
        f"({gain_of_routing()} in the mean of five sets; the paper: +{paper('lsamd/table3', 'lsamd > lsamd_image')})",
        f"makes no significant difference (+{gain('lsamd_last', 'lsamd_first', EIGHT)})",
    )
