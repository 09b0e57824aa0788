"""Verdicts on claims: what measurements, and the paper's numbers, say about the order of two methods."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student_t

from experiments.reproduce.claims import Claim
from experiments.reproduce.judged_claims import JudgedClaim, claims_as_markdown
from experiments.reproduce.paper import PaperRow, PaperTable
from experiments.reproduce.verdicts import judge, seeds_needed
from lgx.results.comparison import Options
from lgx.results.statistics import summarize
from tests.results.helpers import seeds as rows

UNDECIDED = "no difference found"


def test_a_claim_holds_where_the_interval_of_paired_differences_excludes_zero():
    one, other = rows("tal", [0.5, 0.6, 0.7]), rows("logah", [0.4, 0.5, 0.61])
    verdict = judge(Claim("tal", "logah"), [*one, *other])
    assert verdict.answer == "holds"
    assert verdict.measured.summary.mean == pytest.approx(100 * (0.1 + 0.1 + 0.09) / 3)
    assert judge(Claim("logah", "tal"), [*one, *other]).answer == "reversed"
    assert judge(Claim("tal", "ghn3"), one).answer == "not measured"
    assert judge(Claim("tal", "logah"), [one[0], other[0]]).answer == UNDECIDED


def paper_lead(points: float, metric: str = "acc") -> PaperTable:
    """A paper's table in which tal is ahead of logah by some points."""
    values = {"tal": 50.0 + points, "logah": 50.0}
    numbers = [PaperRow(m, "6-Small", "shapes", 0, metric, "percent", "", v, "") for m, v in values.items()]
    return PaperTable("tal/table2", "a title", "TAL, Table 2", (), tuple(numbers))


def test_a_lead_whose_interval_ends_below_the_papers_is_smaller():
    own = [*rows("tal", [0.50, 0.61, 0.69]), *rows("logah", [0.51, 0.60, 0.69])]
    summary = judge(Claim("tal", "logah"), own).measured.summary
    end = summary.mean + summary.half_width
    assert judge(Claim("tal", "logah"), own).answer == UNDECIDED
    assert judge(Claim("tal", "logah"), own, paper_lead(end - 0.1)).answer == UNDECIDED
    verdict = judge(Claim("tal", "logah"), own, paper_lead(end + 0.1))
    assert verdict.answer == "smaller than the paper's lead, if any"
    assert judge(Claim("tal", "logah"), own, paper_lead(50), confounded="steps").answer == "not comparable"
    ahead = [*rows("tal", [0.61, 0.70, 0.80]), *rows("logah", [0.51, 0.60, 0.69])]
    assert judge(Claim("tal", "logah"), ahead, paper_lead(50)).answer == "holds (smaller)"
    assert judge(Claim("tal", "logah"), ahead, paper_lead(5)).answer == "holds"
    assert judge(Claim("tal", "logah"), own[::3], paper_lead(50)).answer == UNDECIDED  # one seed has no interval
    assert JudgedClaim("tal/table2", "acc", verdict).cells()[-1] == verdict.answer  # bold is conclusive


def test_losses_are_not_compared_with_the_papers_sums():
    losses = [replace(row, metric="loss") for row in [*rows("tal", [1.0, 1.1, 1.2]), *rows("logah", [1.1, 1.0, 1.2])]]
    assert judge(Claim("tal", "logah"), losses, paper_lead(-50, "loss"), Options("loss")).answer == UNDECIDED


def test_a_comparison_that_is_not_of_the_methods_alone_is_no_verdict():
    own = [*rows("tal", [0.5, 0.6, 0.7]), *rows("logah", [0.4, 0.5, 0.61])]
    verdict = judge(Claim("tal", "logah"), own, confounded="other learning rates")
    assert (verdict.answer, verdict.differs, verdict.seeds_needed) == ("not comparable", "other learning rates", None)
    assert verdict.measured is not None
    assert judge(Claim("tal", "ghn3"), own, confounded="other learning rates").answer == "not measured"
    assert JudgedClaim("tal/table2", "acc", verdict).cells()[-1] == "not comparable (other learning rates)"


def test_a_smaller_loss_is_better():
    values = [*rows("tal", [1.0, 1.1, 1.2]), *rows("random", [2.0, 2.1, 2.25])]
    losses = [replace(row, metric="loss") for row in values]
    assert judge(Claim("tal", "random"), losses).answer == "holds"


def test_only_cells_that_both_methods_have_for_every_seed_count():
    many = [*rows("tal", [0.5, 0.6]), *rows("tal", [0.0], task="other"), *rows("logah", [0.4, 0.5])]
    many += rows("logah", [1.0, 1.0], task="other")
    verdict = judge(Claim("tal", "logah"), many)
    assert verdict.cells == 1
    assert verdict.measured.summary.mean == pytest.approx(10)


def test_auxiliary_nets_that_share_differently_are_compared():
    nets = {"sws": "depth=4,embed_dim=16,stages=2-2", "tleg": "depth=4,embed_dim=16", "deeper": "depth=6,embed_dim=16"}
    own = [replace(row, architecture=arch) for name, arch in nets.items() for row in rows(name, [0.5, 0.6])]
    assert judge(Claim.parse("sws > tleg"), own).answer == "not measured"
    verdict = judge(Claim.parse("sws > deeper, own networks"), own)
    assert (verdict.cells, verdict.answer) == (1, UNDECIDED)
    assert verdict.differs == "sws: 0 epochs of depth=4,stages=2-2; deeper: 0 epochs of depth=6"


def test_each_side_is_judged_after_the_last_of_its_own_epochs():
    both = [*rows("tal", [0.5, 0.6], 100), *rows("random", [0.1, 0.1], 100), *rows("random", [0.4, 0.4], 200)]
    assert judge(Claim.parse("tal > random, trained"), both).measured.summary.mean == pytest.approx(45)
    verdict = judge(Claim.parse("tal > random, trained, own epochs"), both)
    assert verdict.measured.summary.mean == pytest.approx(15)
    assert verdict.differs == "tal: 100 epochs; random: 200 epochs"
    same = judge(Claim.parse("tal > random, trained, own epochs"), both[:4])
    assert (same.measured.summary.mean, same.differs) == (pytest.approx(45), "")


@given(st.floats(0.05, 3), st.integers(3, 40), st.integers(0, 1000))
def test_the_seeds_that_an_open_claim_needs_would_decide_it(scale, count, seed):
    draw = random.Random(seed)
    summary = summarize([scale + draw.gauss(0, 1) for _ in range(count)])
    needed = seeds_needed(summary)
    assert needed is not None or abs(summary.mean) < 0.2
    if needed is None:
        return
    deviation = summary.half_width * math.sqrt(count) / student_t.ppf(0.975, count - 1)
    widths = [student_t.ppf(0.975, n - 1) * deviation / math.sqrt(n) for n in (needed, max(2, needed - 1))]
    assert widths[0] < abs(summary.mean)
    assert needed == 2 or widths[1] >= abs(summary.mean)


values = st.lists(st.floats(0, 1), min_size=2, max_size=5)


@given(values, values)
def test_a_reversed_claim_has_the_reversed_verdict(one, other):
    measured = [*rows("a", one), *rows("b", other)]
    there, back = (judge(Claim(*pair), measured) for pair in (("a", "b"), ("b", "a")))
    assert there.measured.summary.mean == pytest.approx(-back.measured.summary.mean, abs=1e-9)
    turned = {"holds": "reversed", "reversed": "holds", UNDECIDED: UNDECIDED}
    assert turned[there.answer] == back.answer


def test_claims_of_two_tables_that_rest_on_the_same_rows_count_once():
    verdict = judge(Claim("tal", "logah"), [*rows("tal", [0.61, 0.70, 0.80]), *rows("logah", [0.51, 0.60, 0.69])])
    listed = [JudgedClaim(table, "acc", verdict) for table in ("tal/table8", "tal/table9")]
    text = claims_as_markdown([*listed, replace(listed[0], table="tal/table2", metric="loss")])
    assert "2 claims: 2 holds, 0 holds (smaller)," in text
    assert "| as tal/table8 |" in text
