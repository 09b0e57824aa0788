"""Tables of experiments/README.md on selected layers, held-out widths and learning rates, recomputed from the rows."""

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean

from lgx.methods.lsamd.agreement import against_chance, agreement, ranked_layers
from lgx.methods.lsamd.selection import Selection
from lgx.results.statistics import paired_difference
from tests.project.test_measured_tables import EXPERIMENTS, markdown, percent, rows

GATES = {
    "chosen": "chosen (compares nothing)",
    "compared": "compared, no price",
    "priced_low": "compared, price 0.01",
    "priced": "compared, price 0.03",
}
LAYERS = {
    "layer_choice_first": "first six",
    "layer_choice_even": "evenly spaced",
    "layer_choice_random": "random",
    "layer_choice_last": "last six",
    "lsamd_priced": "selection, price 0.03",
    "swap_ranking": "ranking by swaps",
}
TASKS = {"mini_flowers12": "Flowers", "mini_dtd10": "DTD"}


def selections() -> dict[tuple[str, int], tuple[Selection, float]]:
    """(gate, seed) -> paths with swap profiles, and the mean validation accuracy."""
    shares: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rises: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    accuracies: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in rows("lsamd_gates.csv"):
        run = row["selection"], int(row["seed"])
        shares[run][row["task"]].append(float(row["base_share"]))
        rises[run][row["task"]].append(float(row["swap_rise"]))
        accuracies[run][row["task"]] = float(row["accuracy"])
    return {
        run: (Selection(shares[run], "batch", rises[run]), fmean(accuracies[run].values()))
        for run in sorted(shares, key=lambda run: (list(GATES).index(run[0]), run[1]))
    }


def gate_lines() -> list[str]:
    """The table of selections."""
    body = []
    for (gate, seed), (found, accuracy) in selections().items():
        chance = against_chance(found)
        test = "–" if chance is None else f"{chance.statistic:.1f} ({chance.p:.3f})"
        usage = " ".join(map(str, found.usage))
        ranked = " ".join(map(str, sorted(ranked_layers([found])[:6])))
        cells = [GATES[gate], str(seed), str(sum(found.usage)), usage, test, ranked, f"{100 * accuracy:.1f}"]
        body.append(cells)
    head = ["gate", "seed", "base blocks of 60", "sets by layer, 0 to 11", "χ² (p)", "least needed six", "accuracy"]
    return markdown(head, body)


def agreement_lines() -> list[str]:
    """The table of agreement between two seeds."""
    found, body = selections(), []
    for gate, words in GATES.items():
        if (gate, 0) in found and (gate, 1) in found:
            both = agreement(found[gate, 0][0], found[gate, 1][0])
            cells = ["–" if value is None else f"{value:+.2f}" for value in (both.kappa, both.rho)]
            body.append([words, *cells])
    return markdown(["gate", "κ of the paths", "ρ of the swap profiles"], body)


def by_seed(name: str, metric: str = "acc") -> dict[tuple[str, str, str], dict[int, float]]:
    """(method, architecture, task) -> seed -> share, of the test."""
    found: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for row in rows(name):
        if (row["metric"], row["split"]) == (metric, "test"):
            found[row["method"], row["architecture"], row["task"]][int(row["seed"])] = float(row["value"])
    return found


def difference(one: Mapping[int, float], other: Mapping[int, float]) -> str:
    """Paired difference with half of the 95 % interval, in points."""
    found = paired_difference({s: 100 * v for s, v in one.items()}, {s: 100 * v for s, v in other.items()})
    assert found is not None
    return f"{found.summary.mean:+.1f} ± {found.summary.half_width:.1f}"


def layer_lines() -> list[str]:
    """The table of descendants of six layers."""
    found = {(method, task): values for (method, _, task), values in by_seed("lsamd_layers.csv").items()}
    body = []
    for method, words in LAYERS.items():
        cells = [words]
        for task in TASKS:
            own = found[method, task]
            lead = "–" if method == "layer_choice_first" else difference(own, found["layer_choice_first", task])
            cells += [percent(own), lead]
        body.append(cells)
    head = ["layers", *(words for task in TASKS.values() for words in (task, "against the first six"))]
    return markdown(head, body)


def width_lines() -> list[str]:
    """The table of widths."""
    found = {(m, a.split(",")[1].removeprefix("embed_dim=")): v for (m, a, _), v in by_seed("ghn_widths.csv").items()}
    widths, trained = ["64", "80", "96", "112", "128"], {"64", "96", "128"}
    body = [
        [words, *(percent(found[method, width]) for width in widths)]
        for method, words in (("logah_table", "a row for each size"), ("logah_fourier", "smooth"))
    ]
    return markdown(
        ["embedding of sizes", *(f"{width}{'' if width in trained else ' (held out)'}" for width in widths)], body
    )


def rate_lines() -> list[str]:
    """The table of learning rates: validation accuracy, mean over architectures and tasks, seed 0."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows("tal_layout_rates.csv"):
        name, rate = row["method"].rsplit("_r", 1)
        if not name.startswith("tal_stage1"):
            found[name, rate][row["task"]].append(100 * float(row["value"]))
    body = []
    for name, words in (
        ("logah_official", "LoGAH, official"), ("logah_aligned", "LoGAH, aligned"),
        ("tal_official", "TAL, official"), ("tal_aligned", "TAL, aligned"),
    ):  # fmt: skip
        cells = [found.get((name, rate), {}) for rate in ("0001", "0003", "001")]
        body.append([words, *(f"{fmean(map(fmean, c.values())):.1f}" if len(c) == 4 else "–" for c in cells)])
    return markdown(["hypernetwork, layout", "1e-4", "3e-4", "1e-3"], body)


def test_selections_with_a_real_ancestor() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for line in [*gate_lines(), *agreement_lines(), *layer_lines()]:
        assert line in text, line
    assert all(sorted(cell) == [0, 1, 2] for cell in by_seed("lsamd_layers.csv").values())


def test_held_out_widths_and_learning_rates() -> None:
    text = (EXPERIMENTS / "README.md").read_text()
    for line in [*width_lines(), *rate_lines()]:
        assert line in text, line
