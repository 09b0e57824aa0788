"""Sentences about verdicts, the papers' numbers and the origin of the rows, recomputed."""

import yaml

from lgx.core.rows import read_rows
from tests.support.paths import EXPERIMENTS, ROOT
from tests.support.sentences import ahead, holds, mean, measured, of, page, points, section, spread, trained, untrained


def printed(table: str) -> dict[str, list[float]]:
    """Architecture -> numbers of a line of a paper's table."""
    return {row[0]: row[1:] for row in yaml.safe_load((EXPERIMENTS / "paper_numbers.yaml").read_text())[table]["rows"]}


def verdicts() -> list[list[str]]:
    """Lines of the table of verdicts, which tests/project/test_readme.py recomputes."""
    lines = (EXPERIMENTS / "README.md").read_text().split("## Verdicts")[1].split("\n## ")[0].splitlines()
    return [line[2:-2].split(" | ") for line in lines if line.startswith(("| tal/", "| sws/", "| lsamd/"))]


def test_storage_of_all_descendants_in_the_papers():
    text, sws, lsamd = section("Verdicts"), printed("sws/table2"), printed("lsamd/table2")
    each, (once,) = sum(row[1] for row in sws.values()), {row[3] for row in sws.values() if row[3]}
    assert (len(sws), len(lsamd)) == (10, 11)
    holds(text, f"ten in SWS's paper ({each:.1f} M against {once} M parameters), three here")
    each, (once,) = sum(row[0] for row in lsamd.values()), {row[2] for row in lsamd.values() if row[2]}
    holds(text, f"eleven in LSAMD's ({each:.2f} M against {once} M, {100 * (1 - once / each):.2f} % saved)")


def test_depths_at_which_untrained_descendants_are_ahead_in_the_paper():
    rows = printed("sws/table1")
    ahead_at = [int(name.removeprefix("Des-B-")) for name, row in rows.items() if row[6] > row[2]]
    assert ahead_at == [13, 14, 15]
    holds(section("Verdicts"), "of 13, 14 and 15 layers are ahead", "with 6 to 12 layers they are behind")


def test_pages_summarize_the_verdicts():
    found = verdicts()
    lsamd = [line for line in found if line[0].startswith("lsamd/")]
    assert {line[1] for line in lsamd if "**holds**" in line[-1]} == {
        "lsamd > pretrained, stored",
        "lsamd > random, trained",
        "lsamd > tleg, trained",
    }
    holds(page(ROOT / "docs/reproducing.md"), "Most orderings of SWS hold.", "It is ahead of random starts and of TLEG")
    own = [line[-1] for line in found if line[0].startswith("sws/") and "(control)" not in line[1]]
    judged = [answer for answer in own if answer != "not measured" and not answer.startswith("confounded")]
    assert sum("**holds**" in answer for answer in judged) > len(judged) / 2
    refuted = {(line[0], line[1]) for line in found if "does not hold" in line[-1] and "(control)" not in line[1]}
    on_starts = {claim for _, claim in refuted if claim.split(" > ")[1].startswith("random, trained")}
    assert {claim.split(" > ")[0] for claim in on_starts} == {"tal", "tal_plus", "logah"}
    assert len([claim for _, claim in refuted if claim in on_starts]) > len(refuted) / 2
    holds(page(ROOT / "README.md"), "are mostly on starts of TAL, TAL+ and LoGAH, which train worse than random ones")


def test_every_row_names_its_hardware():
    for file in sorted((EXPERIMENTS / "results").glob("*.csv")):
        if "method,architecture" in file.read_text()[:30]:
            assert all(row.hardware for row in read_rows(file)), file
    holds(
        page(EXPERIMENTS / "README.md"),
        "names the hardware and, where they were recorded, the hash of its configuration",
    )


def test_new_heads_are_at_chance():
    own = measured("lsamd_mini")
    for method in ("random", "pretrained", "sws", "tleg", "lsamd"):
        for task, classes in (("mini_gtsrb", 43), ("mini_flowers12", 12)):
            start = points(own, method, of(task, epochs=untrained))
            assert not ahead(start, dict.fromkeys(start, 100 / classes)).claimable, (method, task)
    holds(section("LSAMD on the mini-Decathlon"), "Untrained, all are at chance, because their heads are new.")


def test_images_of_the_experiments():
    tests = {row.n for row in measured("sws_fashion_mnist")} | {row.n for row in measured("ghn_cifar10")}
    assert tests == {10000}
    holds(section("SWS on Fashion-MNIST"), "10,000 test images")
    holds(section("GHN-3 and LoGAH on CIFAR-10"), "10,000 test images")
    whole = {
        task: points(measured("deit_tiny"), "ancestor", of(task, epochs=trained))
        for task in ("mini_flowers12", "mini_dtd10")
    }
    flowers, dtd = map(spread, whole.values())
    assert all(mean(values) > 70 for values in whole.values())
    holds(section("Descendants of a real ancestor"), f"{flowers} % on Flowers and {dtd} % on DTD", "240 test images")
