"""Numbers in sentences of experiments/README.md about LSAMD and DeiT-Tiny, recomputed from the committed rows."""

import re
from collections import Counter
from pathlib import Path
from statistics import fmean

from lgx.core.rows import Row
from lgx.methods.lsamd.agreement import agreement
from lgx.results.statistics import Difference
from tests.project.test_measured_tables import rows
from tests.project.test_selection_tables import selections
from tests.support.sentences import (
    BySeed,
    ahead,
    committed,
    holds,
    mean,
    measured,
    of,
    paper,
    points,
    section,
    signed,
    spread,
    trained,
)

MINI, REAL, DEIT = "LSAMD on the mini-Decathlon", "LSAMD with a real ancestor", "Descendants of a real ancestor"
TASKS = ("mini_gtsrb", "mini_flowers12")
COLUMNS = [(task, size) for task in ("flowers12", "dtd10") for size in ("depth", "both", "width")]


def descendants(method: str, *depths: int, task: str = "", name: str = "lsamd_mini") -> BySeed:
    """Seed -> mean over trained descendants of these depths on both tasks."""
    chosen = [of(own, f"depth={depth}", trained) for own in TASKS if task in ("", own) for depth in depths or (5, 7, 9)]
    return points(measured(name), method, lambda row: any(column(row) for column in chosen))


def test_differences_between_methods_on_the_mini_decathlon():
    text, random, sws = section(MINI), descendants("random"), descendants("sws")
    leads = {method: signed(ahead(descendants(method), random)) for method in ("sws", "tleg", "pretrained", "lsamd")}
    holds(
        text,
        f"SWS is {leads['sws']}, TLEG {leads['tleg']} and pretrained {leads['pretrained']} above random;",
        f"SWS is {signed(ahead(sws, descendants('pretrained')))} above pretrained.",
        f"LSAMD is {leads['lsamd']} above random and {signed(ahead(descendants('lsamd'), sws))} below SWS;",
        f"Table 1 it is {paper('lsamd/table1', 'lsamd > sws, trained')} above SWS",
    )


def test_descendants_of_the_learngene_of_five_layers():
    own, sws, random = (descendants(method)[0] for method in ("lsamd", "sws", "random"))
    holds(
        section(MINI), f"(seed 0) has {own:.1f} % in the mean, {sws - own:.0f} points below SWS and {own - random:.0f}"
    )


def test_descendants_with_the_threshold_of_the_paper():
    found = {"threshold": descendants("lsamd", 7, 9, name="lsamd_mini_threshold")}
    found |= {method: descendants(method, 7, 9) for method in ("lsamd", "pretrained", "sws", "random")}
    shown = {method: [f"{values[seed]:.1f}" for seed in (1, 2)] for method, values in found.items()}
    two = {method: f"{one} and {other}" for method, (one, other) in shown.items()}
    assert sorted(found["threshold"]) == [1, 2]
    holds(
        section(MINI),
        f"have {two['threshold']} % in the mean over both tasks (τ = 4: {two['lsamd']}); pretrained networks have "
        f"{two['pretrained']}, SWS {two['sws']}, random starts {two['random']}.",
    )


def test_routing_by_batch_and_by_image():
    own = measured("lsamd_mini")
    batch, image = (points(own, name, of(arch="depth=12", epochs=trained)) for name in ("lsamd", "lsamd_image"))
    found = ahead(batch, image)
    assert not found.claimable
    printed = paper("lsamd/table3", "lsamd > lsamd_image")
    holds(section(MINI), f"not significant ({signed(found)} in the mean); in the paper it is {printed} points")


def test_which_stage_grows_first():
    def own(method: str) -> BySeed:
        return descendants(method, 6, 7, name="lsamd_mini_priorities")

    six = [f"{mean(own(f'lsamd_{name}')):.1f}" for name in ("last", "middle", "first")]
    seven = [f"{mean(own(f'lsamd_{name}')):.1f}" for name in ("last_middle", "last_first", "middle_first")]
    pairs = (("last", "first"), ("last", "middle"), ("last_middle", "middle_first"), ("last_middle", "last_first"))
    leads = [ahead(own(f"lsamd_{one}"), own(f"lsamd_{other}")) for one, other in pairs]
    assert not any(lead.claimable for lead in leads)
    printed = [paper("lsamd/table4", f"lsamd_{one} > lsamd_{other}, trained") for one, other in pairs]
    means = [lead.summary.mean for lead in leads]
    holds(
        section(MINI),
        f"Six layers have {six[0]} % in the mean over the seeds if the last stage grows first, {six[1]} with the "
        f"middle and {six[2]} with the first.",
        f"Seven layers have {seven[0]} with last and middle, {seven[1]} with last and first, and {seven[2]}",
        f"stage is {min(printed)} to {max(printed)} points ahead; here the differences are {min(means):.1f} to "
        f"{max(means):.1f}, and all intervals include 0",
    )


def test_longer_training_from_random_starts():
    long = [spread(descendants("random_long", 7, task=task, name="lsamd_mini_long")) for task in TASKS]
    short = [f"{mean(descendants(method, 7, task=task)):.1f}" for method in ("lsamd", "sws") for task in TASKS]
    assert {row.epochs for row in committed("lsamd_mini_long")} == {0, 24, 96}
    holds(
        section(MINI),
        f"7 layers have {long[0]} % on GTSRB after 24 epochs and {long[1]} on Flowers after 96. "
        f"LSAMD's descendants have {short[0]} and {short[1]} after 6 and 24, SWS's have {short[2]} and {short[3]}",
    )


def kept(selection: str, seed: int) -> Counter[int]:
    """Layer -> number of sets that use its base block."""
    found: Counter[int] = Counter({layer: 0 for layer in range(12)})
    for row in rows("lsamd_gates.csv"):
        if (row["selection"], int(row["seed"])) == (selection, seed) and float(row["base_share"]) >= 0.5:
            found[int(row["layer"])] += 1
    return found


def listed(layers: list[int]) -> str:
    return f"{', '.join(map(str, layers[:-1]))} and {layers[-1]}"


def test_layers_that_the_gates_keep():
    text, priced, chosen = section(REAL), *(
        [[layer for layer, count in sorted(kept(gate, seed).items()) if count >= 3] for seed in range(seeds)]
        for gate, seeds in (("priced", 3), ("chosen", 2))
    )  # fmt: skip
    one, another, third = map(listed, priced)
    holds(text, f"three or more sets use the layers {one} in one seed, {another} in another, and {third} in the third")
    holds(text, f"(seed 0) leaves the layers {listed(priced[0])}, which three or more of the five sets use")
    assert chosen == [[2, 3, 4, 5, 6, 11], [0, 2, 3, 4, 5, 11]]
    holds(text, "with `chosen`, 2 to 6 and 11, and 0, 2 to 5 and 11")
    assert [kept("chosen", seed)[11] for seed in (0, 1)] == [4, 4]
    last = [kept(gate, seed)[layer] for gate in ("compared", "priced") for seed in (0, 1) for layer in range(8, 12)]
    assert max(last) <= 2
    assert max(kept("priced", 2)[layer] for layer in range(8, 12)) <= 2
    of_gates = {"compared": (0, 1), "priced_low": (0,), "priced": (0, 1, 2)}
    free, low, high = ([kept(gate, seed).total() for seed in seeds] for gate, seeds in of_gates.items())
    holds(
        text, f"{free[0]} and {free[1]} of 60 without one, {low[0]} at 0.01, {high[0]}, {high[1]} and {high[2]} at 0.03"
    )


def test_text_and_table_of_the_selections_agree():
    text = section(REAL)
    gates = ("chosen (compares nothing)", "compared, no price", "compared, price 0.03")
    found = [re.search(rf"\| {re.escape(gate)} \| ([+-][\d.]+) \| ([+-][\d.]+) \|", text).groups() for gate in gates]
    priced = {seed: selections()["priced", seed][0] for seed in range(3)}
    third = [agreement(priced[2], priced[seed]) for seed in (0, 1)]
    with_third = [f"{both.kappa:+.2f}" for both in third], [f"{both.rho:+.2f}" for both in third]
    holds(text, f"agrees with these by κ {' and '.join(with_third[0])}, ρ {' and '.join(with_third[1])}")
    kappas, rhos = (sorted([*values, *more]) for values, more in zip(zip(*found, strict=True), with_third, strict=True))
    holds(text, f"κ is {kappas[0]} to {kappas[-1]} between two seeds", f"swap profiles {rhos[0]} to {rhos[-1]}")
    assert text.count("| 1 2 3 4 5 6 |") == 4
    holds(text, "names the layers 1 to 6 in four of eight selections")
    chances = [re.findall(rf"\| {re.escape(gate)} \| \d .*? \((0\.\d+)\)", text) for gate in gates]
    assert [sum(float(p) < 0.05 for p in values) for values in chances] == [2, 1, 1]
    holds(text, "with both seeds of `chosen`, and with one of two or three seeds of the others")


def test_descendants_of_selected_layers():
    own, text = measured("lsamd_layers"), section(REAL)

    def lead(one: str, task: str) -> Difference:
        return ahead(points(own, one, of(task)), points(own, "layer_choice_first", of(task)))

    tasks = ("mini_flowers12", "mini_dtd10")
    assert not any(lead("lsamd_priced", task).claimable for task in tasks)
    behind = [-lead("swap_ranking", task).summary.mean for task in tasks]
    holds(text, f"are {behind[0]:.0f} and {behind[1]:.0f} points behind")
    for task in tasks:
        means = [mean(points(own, name, of(task))) for name in ("lsamd_priced", "layer_choice_random")]
        assert means[0] > means[1]
        assert mean(points(own, "layer_choice_first", of(task))) > means[1]
        assert lead("layer_choice_last", task).summary.mean < -15


def tiny(start: str, task: str, size: str) -> BySeed:
    """Seed -> accuracy in percent after three epochs of a descendant of DeiT-Tiny."""

    def chosen(row: Row) -> bool:
        return Path(row.run).parts[-2] == f"{task}-{size}-{start}"

    return {row.seed: 100 * row.value for row in measured("deit_tiny") if chosen(row)}


def significant(one: str, other: str, columns: list[tuple[str, str]]) -> list[int]:
    """1, -1 or 0 for each column where the first start is significantly better, worse, or neither."""
    found = [ahead(tiny(one, *column), tiny(other, *column)) for column in columns]
    return [(1 if lead.summary.mean > 0 else -1) if lead.claimable else 0 for lead in found]


def test_comparisons_of_sws_with_weight_selection_from_deit_tiny():
    text, narrow = section(DEIT), [column for column in COLUMNS if column[1] != "depth"]
    wide = [column for column in COLUMNS if column[1] == "depth"]
    at_width = [significant(kind, "weight_selection", wide) for kind in ("sws", "sws_features")]
    assert sorted([*at_width[0], *at_width[1]]) == [-1, -1, -1, 0]
    holds(text, "better at the ancestor's width, significantly so in three of four comparisons")
    labels, features = (significant(kind, "weight_selection", narrow) for kind in ("sws", "sws_features"))
    assert labels == [1, 0, 0, 0]
    assert sorted(labels + features) == [-1, 0, 0, 0, 0, 0, 0, 1]
    holds(text, "significantly better once (Flowers, 6 × 128, with labels), worse once, and not different six times")
    assert all(
        s == 1 for kind in ("weight_selection", "sws", "sws_features") for s in significant(kind, "random", COLUMNS)
    )
    assert not any(significant("mimetic", "random", COLUMNS))
    behind = [mean(tiny("weight_selection", *column)) - mean(tiny("vanilla_lg", *column)) for column in wide]
    assert min(behind) > 25
    assert significant("weight_subcloning", "weight_selection", COLUMNS) == [1, 1, 1, -1, 0, 1]


def test_labels_for_the_learngene_of_deit_tiny():
    assert significant("sws", "sws_features", COLUMNS) == [0, 1, 0, 0, 0, 0]
    lead = ahead(tiny("sws", "flowers12", "both"), tiny("sws_features", "flowers12", "both")).summary
    holds(section(DEIT), f"except for {lead.mean:.1f} ± {lead.half_width:.1f} points on Flowers, 6 × 128")
    seconds = {name: fmean(float(row["seconds"]) for row in rows("deit_tiny_seconds.csv") if row["run"] == name)
               for name in ("sws-flowers12", "sws_features-flowers12")}  # fmt: skip
    assert all(value > 120 for value in seconds.values())
    assert {row.n for row in measured("deit_tiny")} == {240}
