"""Tables of experiments/README.md on the number of tasks and the task's information, recomputed from the rows."""

from lgx.core.rows import Row
from tests.project.test_measured_tables import EXPERIMENTS, markdown
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

SIX = ("gtsrb", "flowers12", "digits", "dtd10", "cifar10", "omniglot")
COUNTS = (1, 2, 4, 6, 9)
UNSEEN = {"tiny_imagenet": "Tiny-ImageNet", "fashion_mnist": "Fashion-MNIST", "fer2013": "FER2013"}


def shared(method: str) -> BySeed:
    """Seed -> accuracy without training, mean over tasks and ViTs."""
    return points(measured("tal_tasks"), method, of(epochs=untrained))


def six_tasks(row: Row) -> bool:
    """Rows of the six tasks without training."""
    return row.epochs == 0 and row.task.removeprefix("mini_") in SIX


def count_lines() -> list[str]:
    """One TAL beside one LoGAH for each task."""
    body = []
    for count in COUNTS:
        one, many = shared(f"tal_{count}"), shared(f"logah_{count}")
        body.append([str(count), str(720 // count), spread(many), spread(one), lead(one, many)])
    return markdown(["tasks", "steps of each LoGAH", "LoGAHs", "one TAL", "TAL − LoGAHs"], body)


def control_lines() -> list[str]:
    """The TAL of six tasks beside those with other embeddings."""
    kinds = {
        "tal_6": "of the tasks",
        "tal_6_permuted": "of other tasks",
        "tal_6_random": "random",
        "tal_6_none": "none",
    }
    own = shared("tal_6")
    body = [
        [words, spread(shared(kind)), "–" if kind == "tal_6" else lead(shared(kind), own)]
        for kind, words in kinds.items()
    ]
    return markdown(["embeddings", "six tasks", "against those of the tasks"], body)


def unseen_lines() -> list[str]:
    """Descendants for unseen tasks after training."""
    body = []
    for task, name in UNSEEN.items():
        chosen = of(f"mini_{task}", epochs=trained)
        random, own, other = (points(measured("tal_tasks"), m, chosen) for m in ("random", "tal_own", "tal_other"))
        body.append([name, *map(spread, (random, own, other)), lead(own, random), lead(own, other)])
    return markdown(["task", "random", "own embedding", "other embedding", "own − random", "own − other"], body)


def test_the_number_of_tasks_and_their_information() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for line in [*count_lines(), *control_lines(), *unseen_lines()]:
        assert line in text, line


def test_conclusions_about_tasks_and_embeddings() -> None:
    text = section("Number of tasks and their information")
    leads = [ahead(shared(f"tal_{count}"), shared(f"logah_{count}")) for count in COUNTS]
    assert not any(found.claimable for found in leads)
    means = [found.summary.mean for found in leads]
    holds(text, f"the differences are between {min(means):+.1f} and {max(means):+.1f} points")
    single = [f"{value:.1f}" for value in shared("tal_1").values()]
    holds(text, f"seeds differ: {single[0]}, {single[1]} and {single[2]} %")
    other, drawn, none = (ahead(shared(f"tal_6_{kind}"), shared("tal_6")) for kind in ("permuted", "random", "none"))
    assert not any(found.claimable for found in (other, drawn, none))
    holds(text, f"other tasks TAL is {signed(other)}, with random numbers {signed(drawn)} ahead", f"({signed(none)})")
    longer = [points(measured("tal_mini"), kind, six_tasks) for kind in ("tal", "tal_no_task")]
    holds(text, f"in the longer training above it is {plain(ahead(*longer))} behind")
    for task in UNSEEN:
        chosen = of(f"mini_{task}", epochs=trained)
        random, own, other_start = (
            points(measured("tal_tasks"), m, chosen) for m in ("random", "tal_own", "tal_other")
        )
        assert not ahead(own, random).claimable
        assert not (ahead(own, other_start).claimable and ahead(own, other_start).summary.mean > 0)
