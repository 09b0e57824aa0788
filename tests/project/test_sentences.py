"""Numbers in sentences of experiments/README.md about SWS and hypernetworks, recomputed from the committed rows."""

from itertools import pairwise
from statistics import fmean

import yaml

from tests.support.paths import EXPERIMENTS, ROOT
from tests.support.sentences import (
    BySeed,
    ahead,
    holds,
    mean,
    measured,
    of,
    page,
    paper,
    plain,
    points,
    section,
    signed,
    spread,
    trained,
    untrained,
)

DEPTHS = range(4, 13)
SIZES = ("depth=5 embed_dim=96", "depth=6 embed_dim=128", "depth=4 embed_dim=128", "depth=3 embed_dim=160")


def fashion(method: str, depth: int, after: int = 0) -> BySeed:
    chosen = of(arch=f"depth={depth}", epochs=lambda epochs: epochs == after)
    return points(measured("sws_fashion_mnist"), method, chosen)


def paper_values(table: str, label: str, column: int) -> float:
    numbers = yaml.safe_load((EXPERIMENTS / "paper_numbers.yaml").read_text())
    return float(next(row for row in numbers[table]["rows"] if row[0] == label)[column])


def test_untrained_sws_is_ahead_of_starts_without_learngene_at_every_depth():
    for method in ("random", "vanilla_lg", "weight_selection"):
        assert all(mean(fashion("sws", depth)) > mean(fashion(method, depth)) for depth in DEPTHS)
    unclear = [d for d in DEPTHS if not ahead(fashion("sws", d), fashion("weight_selection", d)).claimable]
    names = f"{', '.join(map(str, unclear[:-1]))} and {unclear[-1]} layers"
    holds(section("SWS on Fashion-MNIST"), f"Its interval includes 0 at {names}, where five seeds")


def test_untrained_sws_is_behind_networks_trained_as_long_as_its_learngene():
    trained_alone = points(measured("sws_fashion_mnist_trained"), "random", of(arch="depth=10", epochs=trained))
    lead = ahead(fashion("sws", 10), trained_alone)
    assert lead.claimable
    assert {row.epochs for row in measured("sws_fashion_mnist_trained")} == {0, 6}
    holds(
        section("SWS on Fashion-MNIST"),
        f"is {plain(lead)} points behind a network of 10 layers that was trained from scratch for as many epochs",
    )


def test_leads_of_sws_and_simple_lg_cross():
    text = section("SWS on Fashion-MNIST")
    leads = {depth: ahead(fashion("sws", depth), fashion("simple_lg", depth)) for depth in DEPTHS}
    late = [leads[depth].summary.mean for depth in range(7, 13)]
    assert late == sorted(late)
    assert all(leads[depth].claimable for depth in range(7, 13))
    holds(text, f"from 7 layers on, by {late[0]:.1f} to {late[-1]:.0f} points")
    early = [-leads[depth].summary.mean for depth in (4, 5)]
    assert leads[4].claimable
    assert leads[5].claimable
    assert not leads[6].claimable
    holds(text, f"by {early[0]:.0f} and {early[1]:.1f} points; at 6 layers the difference is not significant")
    assert leads[6].summary.mean < 0 < leads[7].summary.mean
    holds(text, "They cross between 6 and 7 layers, at 1.5 to 1.8 times the number of learngene layers")
    rising = [mean(fashion("sws", depth)) for depth in DEPTHS]
    assert rising == sorted(rising)
    falling = [mean(fashion("simple_lg", depth)) for depth in DEPTHS]
    steps = dict(zip(DEPTHS, (after - before for before, after in pairwise(falling)), strict=False))
    assert [depth for depth, step in steps.items() if step >= 0] == [7]
    holds(text, f"from 7 to 8 layers it rises by {steps[7]:.1f} points")


def test_networks_of_twelve_layers_on_fashion_mnist():
    text = section("SWS on Fashion-MNIST")
    whole = spread(fashion("weight_selection", 12))
    holds(text, f"SWS has {spread(fashion('sws', 12))} %; the ancestor", f"12 layers, has {whole} %")
    six, twelve = (paper_values("sws/table1", name, 7) for name in ("Des-B-6", "Des-B-12"))
    holds(text, f"({six} % at 6 layers, {twelve} % at 12)")


def test_starts_on_fashion_mnist_after_one_epoch():
    text, kinds, depths = section("SWS on Fashion-MNIST"), ("weight_selection", "simple_lg", "tleg", "sws"), (6, 8, 10)
    ends = {depth: {kind: mean(fashion(kind, depth, 1)) for kind in kinds} for depth in depths}
    apart = max(max(own.values()) - min(own.values()) for own in ends.values())
    gains = [value - mean(fashion("random", depth, 1)) for depth, own in ends.items() for value in own.values()]
    holds(text, f"are within {apart:.1f} points of each other", f"{min(gains):.0f} to {max(gains):.0f} points above a")
    simple = {depth: ahead(fashion("simple_lg", depth, 1), fashion("sws", depth, 1)) for depth in depths}
    assert [depth for depth in depths if simple[depth].claimable and simple[depth].summary.mean > 0] == [6, 8]
    most = max(abs(lead.summary.mean) for lead in simple.values())
    holds(text, f"differ by at most {most:.1f} points (Simple-LG ahead at 6 and 8 layers)")
    own = measured("sws_fashion_mnist")
    after, before = (
        ahead(*(points(own, method, of(epochs=lambda n, epochs=epochs: n == epochs)) for method in ("sws", "tleg")))
        for epochs in (1, 0)
    )
    assert after.claimable
    assert before.claimable
    holds(
        text,
        f"SWS is ahead of TLEG: after one epoch by {plain(after, 2)} points, untrained by {plain(before)} in the mean",
    )
    holds(text, f"(the paper: {paper('sws/table1', 'sws > tleg, untrained')})")
    leads = {depth: ahead(fashion("sws", depth), fashion("tleg", depth)) for depth in DEPTHS}
    most, least = (choose(leads, key=lambda depth: leads[depth].summary.mean) for choose in (max, min))
    assert [depth for depth, lead in leads.items() if not lead.claimable] == [6]
    holds(
        text,
        f"from {leads[most].summary.mean:.1f} points at {most} layers to {leads[least].summary.mean:.1f} at {least};",
    )


def test_strategies_on_fashion_mnist():
    draws = [value for depth in (6, 8, 10) for value in fashion("sws_random_assigned", depth).values()]
    worst = min(value for depth in (6, 8, 10) for value in fashion("sws", depth).values())
    assert max(draws) < worst - 8
    holds(section("SWS on Fashion-MNIST"), f"{min(draws):.0f} to {max(draws):.0f} % over five seeds, always far below")
    scratch, sws = fashion("random_long", 8, 10), fashion("sws", 8, 1)
    holds(
        section("SWS on Fashion-MNIST"),
        f"with 8 layers {spread(sws)} % against {spread(scratch)}, by {plain(ahead(sws, scratch))}",
    )
    assert ahead(sws, scratch).claimable
    assert all(mean(fashion("sws_order2", depth)) <= mean(fashion("sws", depth)) for depth in (6, 8, 10))


def seedwise(one: BySeed, other: BySeed) -> BySeed:
    """The mean of two values of each seed."""
    return {seed: (one[seed] + other[seed]) / 2 for seed in one}


def panel(name: str, method: str) -> BySeed:
    """Seed -> mean over the four held-out ViTs."""
    return points(measured(name), method, lambda row: any(of(arch=size)(row) for size in SIZES))


def test_hypernetworks_on_cifar10():
    text, own = section("GHN-3 and LoGAH on CIFAR-10"), measured("ghn_cifar10")
    kinds = ("ghn3", "logah", "logah_residual")
    cells = {(kind, size): points(own, kind, of(arch=size)) for kind in (*kinds, "random") for size in SIZES}
    means = [mean(cells[kind, size]) for kind in kinds for size in SIZES]
    holds(text, f"{min(means):.0f} to {max(means):.0f} % without training, more than three times chance")
    assert min(means) > 30
    assert all(ahead(cells[kind, size], cells["random", size]).claimable for kind in kinds for size in SIZES)
    chance = fmean(mean(cells["random", size]) for size in SIZES)
    hypernetworks = page(ROOT / "docs/hypernetworks.md")
    holds(hypernetworks, f"{min(means):.0f} to {max(means):.0f} % accuracy", f"a random start has {chance:.0f} %")
    residual, official, ghn3 = (panel("ghn_cifar10", kind) for kind in ("logah_residual", "logah", "ghn3"))
    seeds = [", ".join(f"{value:.1f}" for value in values.values()) for values in (residual, official, ghn3)]
    holds(text, f"by {plain(ahead(residual, official))} points ({mean(residual):.1f} against {mean(official):.1f} %;")
    holds(text, f"seeds {seeds[0]} against {seeds[1]})", f"its seeds differ most ({seeds[2]})")
    clear = [size for size in SIZES if ahead(cells["logah_residual", size], cells["logah", size]).claimable]
    assert clear == [SIZES[0]]
    behind = ahead(ghn3, official)
    assert not behind.claimable
    holds(text, f"GHN-3 is {plain(behind)} points behind LoGAH, which is not significant")


def test_hypernetworks_on_the_pocket_set():
    text, own = section("GHN-3 and LoGAH on the pocket pretraining set"), measured("ghn_pocket")
    means = {kind: mean(panel("ghn_pocket", kind)) for kind in ("ghn3", "logah", "logah_residual")}
    ghn3, logah, residual = means.values()
    holds(
        text,
        f"({100 / 96:.2f} %): GHN-3 has {ghn3:.1f} %, LoGAH {logah:.1f} %",
        f"its residual layout {residual:.1f} %",
    )
    holds(text, f"a factor of {residual * 0.96:.1f} to {ghn3 * 0.96:.0f}.")
    with_chance = {
        kind: sum(not ahead(points(own, kind, of(arch=size)), dict.fromkeys(range(3), 100 / 96)).claimable
                  for size in SIZES)
        for kind in means
    }  # fmt: skip
    assert (with_chance["ghn3"], with_chance["logah_residual"]) == (4, 3)
    pairs = (("ghn3", "logah"), ("ghn3", "logah_residual"), ("logah", "logah_residual"))
    assert not any(ahead(panel("ghn_pocket", one), panel("ghn_pocket", other)).claimable for one, other in pairs)


def test_widths_between_those_of_training():
    found = {
        (kind, width): points(measured("ghn_widths"), f"logah_{kind}", of(arch=f"embed_dim={width}"))
        for kind in ("table", "fourier")
        for width in (64, 80, 96, 112, 128)
    }
    text = section("Widths between those of training")
    for kind, words in (("table", "a random row costs {} points"), ("fourier", "the smooth embedding {}")):
        near = {w: seedwise(found[kind, w - 16], found[kind, w + 16]) for w in (80, 112)}
        costs = [ahead(near[w], found[kind, w]) for w in (80, 112)]
        holds(text, words.format(" and ".join(map(plain, costs))))
        assert [cost.claimable for cost in costs] == [kind == "table", False]
    leads = [seedwise(found[kind, 80], found[kind, 112]) for kind in ("fourier", "table")]
    holds(text, f"it is {plain(ahead(*leads))} points ahead")
    assert all(mean(found["fourier", w]) > mean(found["table", w]) for w in (64, 80, 96, 112, 128))
    assert not any(ahead(found["fourier", w], found["table", w]).claimable for w in (64, 80, 96, 112, 128))
    ends = found["table", 112].values()
    holds(text, f"between {min(ends):.1f} and {max(ends):.1f} % at width 112")


def decathlon(method: str, depths: tuple[int, ...] = (5, 7, 9)) -> BySeed:
    """Seed -> mean over trained descendants on two tasks."""
    chosen = [of(task, f"depth={depth}", trained) for task in ("mini_gtsrb", "mini_flowers12") for depth in depths]
    return points(measured("sws_mini", "lsamd_mini"), method, lambda row: any(column(row) for column in chosen))


def test_orderings_of_sws_on_the_mini_decathlon():
    text = section("SWS on the mini-Decathlon")
    sws = decathlon("sws")
    for words, other, table, claim in (
        ("one by one by {} points (paper: {})", "pretrained", "sws/table2", "sws > pretrained, trained"),
        ("with a third of the epochs by {} ({})", "sws_short", "sws/table6", "sws > sws_short, trained"),
    ):
        found = ahead(sws, decathlon(other))
        assert found.claimable
        holds(text, words.format(plain(found), paper(table, claim)))
    vanilla, random, tleg = (signed(ahead(sws, decathlon(other))) for other in ("vanilla_lg", "random", "tleg"))
    holds(text, f"Vanilla-LG ({vanilla}) and of random starts ({random})", f"against TLEG the claim is open ({tleg})")
    assert not ahead(sws, decathlon("tleg")).claimable
    holds(text, f"is {plain(ahead(decathlon('random'), decathlon('vanilla_lg')))} points behind a random start")


def test_auxiliary_nets_on_the_mini_decathlon():
    text = section("SWS on the mini-Decathlon")
    kinds = ("sws", "tleg", "sws_222222", "sws_222222_no_ancestor", "mini_deit")
    first = [row for row in measured("sws_mini") if row.seed <= 2]
    nets = {kind: points(first, kind, of("mini_cifar10")) for kind in kinds}
    tleg = paper("sws/table5", "sws > tleg, trained, own networks")
    holds(text, f"ahead of TLEG by {plain(ahead(nets['sws'], nets['tleg']))} ({tleg})")
    guided = paper("sws/table5", "sws_222222 > sws_222222_no_ancestor, trained, own networks")
    worth = ahead(nets["sws_222222"], nets["sws_222222_no_ancestor"])
    holds(text, f"guidance is worth {plain(worth)} points ({guided})")
    close = ("sws", "sws_222222", "mini_deit")
    means = [mean(nets[kind]) for kind in close]
    holds(text, f"are within {max(means) - min(means):.1f} points")
    assert not any(ahead(nets[one], nets[other]).claimable for one in close for other in close if one != other)
    late = [row for row in measured("sws_mini") if row.seed > 2]
    for one, other, words in (
        ("222222", "141141", "2-2-2-2-2-2 is {} ahead of 1-4-1-1-4-1 (the paper: +{})"),
        ("41614", "15141", "4-1-6-1-4 is not ahead of 1-5-1-4-1 ({}; the paper: +{})"),
    ):
        unequal = ahead(*(points(late, f"sws_{kind}", of("mini_cifar10")) for kind in (one, other)))
        printed = paper("sws/table5", f"sws_{one} > sws_{other}, trained, own networks")
        holds(text, words.format(signed(unequal), printed))
        assert not unequal.claimable
    printed = [paper_values("sws/table5", kind, 3) for kind in close]
    holds(text, f"they are close too ({min(printed)} to {max(printed)})")


def test_shared_layers_of_an_ancestor_are_no_good_network_untrained():
    own = measured("sws_starts", metric="loss")
    kinds = ("sws_from_mean", "sws", "sws_from_middle")
    start = [mean(points(own, kind, of(epochs=untrained))) for kind in kinds]
    assert start == sorted(start)
    holds(section("Starts of SWS from a real ancestor"), "middle layers are further from the ancestor than random")
