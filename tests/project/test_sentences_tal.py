"""Numbers in sentences of experiments/README.md about TAL and texts, recomputed from the committed rows."""

from statistics import fmean

import yaml

from lgx.results.statistics import Difference, paired_difference
from tests.support.paths import EXPERIMENTS
from tests.support.sentences import (
    BySeed,
    ahead,
    committed,
    holds,
    mean,
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

TASKS = ("mini_cifar10", "mini_gtsrb", "mini_dtd10", "mini_flowers12", "mini_omniglot", "mini_digits")
FILES = ("tal_mini", "tal_mini_baselines", "tal_mini_plus")
TAL, TRAINED = "TAL on the mini-Decathlon", "Trained descendants, one task alone, GHN-3 with task information"
LAYOUT, TEXT = "Layout, learning rate and steps of TAL and LoGAH", "GPT-2 on four language tasks"
SMALL = ("mini_gtsrb", "mini_flowers12", "mini_dtd10")


def start(method: str, *tasks: str) -> BySeed:
    """Seed -> untrained accuracy, mean over tasks and the four ViTs."""
    own = measured(*FILES, "tal_mini_variants")
    return points(own, method, lambda row: row.epochs == 0 and row.task in (tasks or TASKS))


def end(method: str, *tasks: str) -> BySeed:
    """Seed -> accuracy after training, mean over tasks."""
    return points(measured("tal_mini_trained"), method, lambda row: row.epochs > 0 and row.task in (tasks or SMALL))


def first_three(values: BySeed) -> str:
    return ", ".join(f"{value:.1f}" for value in values.values())


def test_paired_differences_of_untrained_starts():
    text, tal = section(TAL), start("tal")
    leads = {name: ahead(tal, start(name)) for name in ("random", "ghn3", "logah", "tal_no_task", "tal_no_ancestor")}
    assert [name for name, lead in leads.items() if not lead.claimable] == ["tal_no_ancestor"]
    holds(
        text,
        f"above random ({signed(leads['random'])}), GHN-3 ({signed(leads['ghn3'])}), LoGAH ({signed(leads['logah'])}) "
        f"and TAL without task information ({signed(leads['tal_no_task'])})",
        f"GHN-3 is above random ({signed(ahead(start('ghn3'), start('random')))})",
        f"LoGAH above GHN-3 ({signed(ahead(start('logah'), start('ghn3')))})",
        f"TAL above TAL without an ancestor ({signed(leads['tal_no_ancestor'])})",
        f"`logah_aligned` above TAL ({signed(ahead(start('logah_aligned'), tal))})",
    )
    assert not ahead(start("logah"), start("ghn3")).claimable
    assert not ahead(start("logah_aligned"), tal).claimable
    uniform = start("tal_uniform")
    holds(text, f"equal to `logah_aligned` ({signed(ahead(uniform, start('logah_aligned')))})")
    lost = mean(start("tal", "mini_cifar10")) - mean(start("tal_uniform", "mini_cifar10"))
    holds(text, "and loses five points on CIFAR-10")
    assert f"{lost:.0f}" == "5"


def test_unseen_tasks():
    own, text = measured(*FILES), section(TAL)
    for task, name, chance in (("mini_fashion_mnist", "Fashion-MNIST", 10), ("mini_fer2013", "FER2013", 100 / 7)):
        ends = [points(own, method, of(task, epochs=trained)) for method in ("random", "logah_aligned", "tal")]
        lead = ahead(ends[2], ends[0])
        assert lead.claimable
        holds(text, f"| {name} | {' | '.join(map(spread, ends))} | {signed(lead)} |")
        for method in ("random", "logah_aligned", "tal"):
            before = ahead(points(own, method, of(task, epochs=untrained)), dict.fromkeys(range(3), chance))
            assert before.summary.mean < 0 or not before.claimable


def test_what_the_ancestor_gives_stage_1():
    text = section(TAL)
    stage1, alone, plus = (
        start(name, "mini_cifar10") for name in ("tal_stage1", "tal_stage1_no_ancestor", "tal_plus_stage1")
    )
    worth = [f"{stage1[seed] - alone[seed]:.1f}" for seed in (0, 1, 2)]
    holds(text, f"guidance is worth {worth[0]}, {worth[1]} and {worth[2]} points on CIFAR-10")
    left = mean(start("tal", "mini_cifar10")) - mean(start("tal_no_ancestor", "mini_cifar10"))
    holds(text, f"{left:.1f} points remain in the mean")
    lead = ahead(start("tal_plus"), start("tal"))
    on_imagenet = paper("tal/table1", "tal_plus > tal, untrained")
    holds(text, f"({signed(lead)} in the mean over the tasks; the paper: +{on_imagenet} on ImageNet untrained)")
    holds(text, f"({mean(plus):.1f} and {mean(stage1):.1f} % on CIFAR-10)")
    aligned, official = (mean(start(name, "mini_cifar10")) for name in ("logah_aligned", "logah"))
    holds(
        text, f"LoGAH has {aligned:.1f} % on CIFAR-10 after 468 steps; in the official layout it has {official:.1f} %"
    )


def test_batches_of_small_tasks():
    """Steps of the sweep are proportional to the sizes of the tasks, of which TAL draws the square roots."""
    runs = yaml.safe_load((EXPERIMENTS / "tal/mini_baselines.yaml").read_text())["runs"]
    (steps,) = (
        {name: 2 * options["data.steps_per_epoch"] for name, options in run["matrix"]["task"].items()}
        for run in runs
        if run["name"].startswith("logah-")
    )
    drawn = {name: 1800 * count**0.5 / sum(n**0.5 for n in steps.values()) for name, count in steps.items()}
    small = sorted(drawn[name] for name in ("dtd10", "flowers12", "digits"))
    text = section(TAL)
    holds(text, f"TAL reads {small[0]:.0f} to {small[-1]:.0f} batches and LoGAH 468", f"after {steps['cifar10']:,}.")
    holds(text, f"LoGAH has {steps['dtd10']} steps for a set of 840 images")
    holds(text, f"({1800 // len(steps)} batches of every task)")


def test_descendants_trained_on_cifar10():
    text, own = section(TRAINED), measured("tal_mini_trained")
    before = {name: points(own, name, of("mini_cifar10", epochs=untrained)) for name in ("tal", "logah")}
    lead = ahead(before["tal"], before["logah"])
    holds(
        text,
        f"stage 1 gives {mean(before['tal']):.1f} % untrained and LoGAH, with more than twice its steps, "
        f"{mean(before['logah']):.1f} % ({signed(lead)})",
    )
    tal, ghn3, logah = (end(name, "mini_cifar10") for name in ("tal", "ghn3", "logah"))
    holds(text, f"ahead of GHN-3 by {plain(ahead(tal, ghn3))} points and of LoGAH by {plain(ahead(tal, logah))} (not")
    assert not ahead(tal, logah).claimable


def test_descendants_trained_on_three_tasks():
    text = section(TRAINED)
    tal, ghn3, logah, random = (end(name) for name in ("tal", "ghn3", "logah", "random"))
    printed = [paper("tal/table3", f"tal > {name}, trained") for name in ("logah", "ghn3")]
    holds(
        text,
        f"by {plain(ahead(tal, logah))} and {plain(ahead(tal, ghn3))} points in the mean over GTSRB, Flowers and "
        f"DTD (Table 3; paper: {printed[0]} and {printed[1]})",
    )
    holds(text, f"than a random one, by {plain(ahead(random, logah))} and {plain(ahead(random, ghn3))}.")
    holds(text, f"TAL is equal at the end ({signed(ahead(tal, random))})")


def loss(method: str, task: str, epoch: int) -> BySeed:
    found = [
        row for row in committed("tal_mini_convergence") if (row.method, row.task, row.epochs) == (method, task, epoch)
    ]
    return {row.seed: row.value for row in found}


def behind(method: str) -> Difference:
    """By how much the training loss is above that of TAL, in the mean over tasks and epochs that both have."""
    cells = {(row.task, row.epochs) for row in committed("tal_mini_convergence") if row.task in SMALL}
    assert len(cells) == 53
    found = paired_difference(
        *({seed: fmean(loss(name, *cell)[seed] for cell in cells) for seed in (0, 1, 2)} for name in (method, "tal"))
    )
    assert found is not None
    return found


def test_training_losses():
    text = section(TRAINED)
    tal, random = ([mean(loss(name, task, 10)) for task in SMALL[1:]] for name in ("tal", "random"))
    holds(
        text,
        f"is {tal[0]:.2f} on Flowers and {tal[1]:.2f} on DTD; that of a random start is {random[0]:.2f} and "
        f"{random[1]:.2f} (in the mean over tasks and epochs {plain(behind('random'), 2)} lower over all 53 pairs",
    )
    aligned = behind("logah_aligned")
    assert aligned.summary.mean < 0
    holds(text, f"against LoGAH in TAL's own layout, {plain(aligned, 2)} higher")


def by_task(method: str) -> str:
    values = [f"{mean(start(method, task)):.1f}" for task in SMALL]
    return f"{values[0]}, {values[1]} and {values[2]}"


def test_tuning_on_one_task_alone_and_task_information():
    text = section(TRAINED)
    epochs, steps = (ahead(start("tal", *SMALL), start(name, *SMALL)) for name in ("tal_st", "tal_st_steps"))
    assert epochs.claimable
    assert steps.claimable
    printed = paper("tal/table7", "tal > tal_st")
    holds(
        text,
        f"TAL-st has {by_task('tal_st')} % untrained on GTSRB, Flowers and DTD after 102, 22 and 28 steps; "
        f"TAL has {by_task('tal')} after 1,800 shared steps ({signed(epochs)}; the paper: +{printed})",
        f"After 300 steps each, TAL-st has {by_task('tal_st_steps')}, and is ahead ({signed(steps)})",
        f"is equal to it ({by_task('tal_uniform').replace(' and', ',')})",
    )
    assert not ahead(start("tal_uniform", *SMALL), start("tal_st_steps", *SMALL)).claimable
    task, plainly = start("ghn3_task"), start("ghn3")
    claim = paper("tal/ghn3_task", "ghn3_task > ghn3")
    holds(
        text,
        f"has {mean(task):.1f} % in the mean over six tasks, GHN-3 for each task {mean(plainly):.1f} "
        f"({signed(ahead(task, plainly))}; confounded: it starts from the GHN-3 of CIFAR-10 and has another learning "
        f"rate and other steps; the paper +{claim}), and TAL {mean(start('tal')):.1f}.",
    )


def layout(method: str, *tasks: str) -> BySeed:
    return points(measured("tal_layout"), method, lambda row: not tasks or row.task in tasks)


def test_layouts_of_tal_and_logah():
    text = section(LAYOUT)
    official, aligned = (ahead(layout(f"tal_{name}"), layout(f"logah_{name}")) for name in ("official", "aligned"))
    assert not official.claimable
    assert not aligned.claimable
    holds(text, f"was found: {signed(official)} points in the official layout, {signed(aligned)} in layout `aligned`")
    first = ahead(layout("tal_official", "mini_cifar10"), layout("logah_official", "mini_cifar10"))
    assert first.claimable
    holds(text, f"TAL is {plain(first)} ahead in the official layout")
    worth = [ahead(layout(f"{name}_aligned"), layout(f"{name}_official")) for name in ("tal", "logah")]
    assert f"{worth[0].summary.mean:.1f}" == f"{worth[1].summary.mean:.1f}"
    halves = [f"± {found.summary.half_width:.1f}" for found in worth]
    holds(text, f"is worth {worth[0].summary.mean:.1f} points, to both ({halves[0]} and {halves[1]})")
    holds(text, f"the lead of {ahead(start('tal'), start('logah')).summary.mean:.1f} points of TAL over LoGAH [there]")


def test_learning_rates_are_those_with_the_best_validation_accuracy():
    rows = committed("tal_layout_rates")
    best = {}
    for name in ("logah_official", "logah_aligned", "tal_stage1_official", "tal_stage1_aligned"):
        means = {
            method: fmean(row.value for row in rows if row.method == method)
            for method in sorted({row.method for row in rows if row.method.startswith(f"{name}_r")})
        }
        best[name] = max(means, key=lambda method: means[method]).rsplit("_r", 1)[1]
    assert (best["logah_official"], best["logah_aligned"]) == ("0003", "0001")
    holds(section(LAYOUT), "LoGAH has 3e-4 in the official layout and 1e-4 in layout `aligned`, TAL 3e-4:")


def language(method: str, task: str) -> BySeed:
    """Seed -> mean over the four depths, accuracy or Matthews correlation."""
    return points(measured("text_mini", metric="mcc" if task == "cola" else "acc"), method, of(task))


def test_gpt2_on_four_tasks():
    text = section(TEXT)
    own = measured("text_mini") + measured("text_mini", metric="mcc")
    priors = {}
    for task, metric in (("imdb_subset", "acc"), ("mrpc", "acc"), ("cola", "mcc")):
        values = {row.value for row in own if (row.method, row.task, row.metric) == ("logah", task, metric)}
        assert len(values) == 1
        priors[task] = 100 * values.pop()
    assert priors["cola"] == 0
    holds(
        text,
        f"IMDB ({priors['imdb_subset']:.1f} %), MRPC ({priors['mrpc']:.1f} %) and CoLA (0), at every depth and seed",
    )
    leads = {
        task: ahead(language("tal", task), language("logah", task)) for task in ("imdb_subset", "cola", "mrpc", "rte")
    }
    assert not any(lead.claimable for lead in leads.values())
    depths = [mean(points(own, "tal", of("imdb_subset", f"gpt2:depth={depth}"))) for depth in (3, 6, 9, 12)]
    holds(
        text,
        f"by {plain(leads['imdb_subset'])} points in the mean over depths ({', '.join(f'{d:.1f}' for d in depths[:3])} "
        f"and {depths[3]:.1f} %), and by {plain(leads['cola'])} on CoLA. On MRPC it is {plain(leads['mrpc'])} behind "
        f"and on RTE {plain(leads['rte'])}.",
    )
    holds(text, f"(the paper: +{paper('tal/table6', 'tal > logah')} in the mean)")
    aligned = language("logah_aligned", "imdb_subset")
    best, *others = sorted((f"{value:.0f}" for value in aligned.values()), reverse=True)
    assert set(others) == {"50"}
    holds(text, f"has {best} % on IMDB with one seed and 50 % with the other two")
    holds(text, f"TAL is {plain(ahead(language('tal', 'imdb_subset'), aligned))} ahead of it")


def test_gain_of_the_paper_on_imdb():
    rows = yaml.safe_load((EXPERIMENTS / "paper_numbers.yaml").read_text())["tal/table6"]["rows"]
    average = {row[1]: row[-1] for row in rows if row[0] == "average"}
    holds(section(TEXT), f"the gain comes from IMDB (+{average['tal'] - average['logah']:.1f})")
