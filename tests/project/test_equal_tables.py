"""Tables of experiments/README.md on TAL, LoGAH and GHN-3 at equal steps, recomputed from the rows."""

from collections import defaultdict
from collections.abc import Callable, Iterable
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
    paper,
    plain,
    points,
    section,
    signed,
    spread,
    trained,
    untrained,
)

RATES = {"0001": "1e-4", "0003": "3e-4", "001": "1e-3", "003": "3e-3"}
TUNED = {"ghn3": "GHN-3", "ghn3_task": "GHN-3 with task information", "tal_plus": "TAL+"}
TASKS = {"mini_cifar10": "CIFAR-10", "mini_gtsrb": "GTSRB", "mini_flowers12": "Flowers", "mini_digits": "digits"}
METHODS = {
    "ghn3": "GHN-3",
    "ghn3_task": "GHN-3 with task information",
    "logah": "LoGAH",
    "tal": "TAL",
    "tal_plus": "TAL+",
}
STARTS = {"random": "random", "ghn3": "GHN-3", "logah": "LoGAH", "tal": "TAL", "tal_plus": "TAL+"}
TRAINED = ("mini_gtsrb", "mini_flowers12", "mini_digits")
UNSEEN = {"mini_fashion_mnist": "Fashion-MNIST", "mini_fer2013": "FER2013"}


def rate_lines() -> list[str]:
    """Validation accuracy by learning rate, mean over architectures and tasks, seed 0."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows("tal_equal_rates.csv"):
        name, rate = row["method"].rsplit("_r", 1)
        found[name, rate][row["task"]].append(100 * float(row["value"]))
    body = []
    for name, words in TUNED.items():
        cells = [found.get((name, rate), {}) for rate in RATES]
        body.append([words, *(f"{fmean(map(fmean, cell.values())):.1f}" if len(cell) == 4 else "–" for cell in cells)])
    return markdown(["hypernetwork", *RATES.values()], body)


def predicted(method: str, *tasks: str) -> BySeed:
    """Seed -> accuracy of the four held-out ViTs without training, mean over the tasks."""
    cells = [points(measured("tal_equal"), method, of(task)) for task in tasks or TASKS]
    return {seed: fmean(cell[seed] for cell in cells) for seed in cells[0]}


def start(method: str, task: str, when: Callable[[int], bool] = trained) -> BySeed:
    """Seed -> accuracy of a descendant before or after training."""
    return points(measured("tal_equal_trained"), method, of(task, epochs=when))


def both(method: str, tasks: Iterable[str]) -> BySeed:
    """Seed -> accuracy after training, mean over the tasks."""
    cells = [start(method, task) for task in tasks]
    return {seed: fmean(cell[seed] for cell in cells) for seed in cells[0]}


def untrained_lines() -> list[str]:
    """Accuracy of held-out ViTs without training."""
    body = [
        [words, *(spread(predicted(method, task)) for task in TASKS), spread(predicted(method))]
        for method, words in METHODS.items()
    ]
    return markdown(["hypernetwork", *TASKS.values(), "mean"], body)


def trained_lines() -> list[str]:
    """Accuracy before and after training."""
    body = [
        [words, *(f"{spread(start(m, t, untrained))} → {spread(start(m, t))}" for t in TASKS)]
        for m, words in STARTS.items()
    ]
    return markdown(["start", *TASKS.values()], body)


def unseen_lines() -> list[str]:
    """Accuracy after training on tasks that no hypernetwork learned."""
    body = [
        [
            STARTS[method],
            *(
                cell
                for task in UNSEEN
                for cell in (
                    spread(start(method, task)),
                    "–" if method == "random" else lead(start(method, task), start("random", task)),
                )
            ),
        ]
        for method in ("random", "logah", "tal")
    ]
    return markdown(["start", *(cell for name in UNSEEN.values() for cell in (name, "against random"))], body)


def size(found: Difference) -> str:
    """Size of a difference that is significant."""
    assert found.claimable
    return plain(found)


def test_tables_of_hypernetworks_at_equal_steps() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for line in [*rate_lines(), *untrained_lines(), *trained_lines(), *unseen_lines()]:
        assert line in text, line


def test_learning_rates_are_those_with_the_best_validation_accuracy() -> None:
    best = {}
    for line in rate_lines()[2:]:
        name, *cells = line.strip("| ").split(" | ")
        values = {rate: float(cell) for rate, cell in zip(RATES.values(), cells, strict=True) if cell != "–"}
        best[name] = max(values, key=lambda rate: values[rate])
    assert best == {"GHN-3": "1e-4", "GHN-3 with task information": "3e-4", "TAL+": "3e-4"}


def test_conclusions_on_untrained_descendants() -> None:
    text = section("TAL, LoGAH and GHN-3 at equal steps")
    over_logah, plus = ahead(predicted("tal"), predicted("logah")), ahead(predicted("tal_plus"), predicted("tal"))
    assert not over_logah.claimable
    assert not plus.claimable
    printed = [paper("tal/table2", "tal > logah"), paper("tal/ghn3_task", "ghn3_task > ghn3")]
    without_digits = [predicted(name, *list(TASKS)[:3]) for name in ("tal", "ghn3")]
    holds(
        text,
        f"({signed(over_logah)} in the mean over the tasks; the paper: +{printed[0]})",
        f"TAL+ is not ahead of TAL ({signed(plus)})",
        f"On CIFAR-10 TAL is {size(ahead(predicted('tal', 'mini_cifar10'), predicted('logah', 'mini_cifar10')))} ahead",
        f"by {size(ahead(predicted('tal'), predicted('ghn3')))} points without training, in the mean over",
        f"without digits the lead is {size(ahead(*without_digits))}.",
        f"GHN-3 with task information is {size(ahead(predicted('ghn3'), predicted('ghn3_task')))} behind GHN-3 for "
        f"each task (the paper: {printed[1]} ahead)",
    )
    assert {round(value) for value in predicted("ghn3", "mini_digits").values()} == {10}


def test_conclusions_on_trained_descendants() -> None:
    text, ends = section("TAL, LoGAH and GHN-3 at equal steps"), {name: both(name, TRAINED) for name in STARTS}
    digits = [ahead(start(name, "mini_digits"), start("random", "mini_digits")) for name in ("tal", "tal_plus")]
    behind = {name: size(ahead(ends["random"], ends[name])) for name in ("tal", "tal_plus", "logah", "ghn3")}
    holds(
        text,
        f"After training it is {size(ahead(ends['tal'], ends['ghn3']))}, in the mean over GTSRB, Flowers and digits",
        f"TAL is ahead of LoGAH by {size(ahead(ends['tal'], ends['logah']))} points in the mean over the three tasks "
        f"(the paper: +{paper('tal/table3', 'tal > logah, trained')}) "
        f"and by {size(ahead(start('tal', 'mini_cifar10'), start('logah', 'mini_cifar10')))} on CIFAR-10",
        f"TAL's by {behind['tal']} points, TAL+'s by {behind['tal_plus']}, LoGAH's by {behind['logah']}, "
        f"GHN-3's by {behind['ghn3']};",
        f"on the two unseen tasks TAL's by {size(ahead(both('random', UNSEEN), both('tal', UNSEEN)))}.",
        f"are level ({signed(digits[0])} and {signed(digits[1])})",
    )
    assert not any(found.claimable for found in digits)
