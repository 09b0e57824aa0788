"""Claims whose two sides are different networks, and claims about stored parameters."""

from pathlib import Path

import pytest
import yaml

from experiments.reproduce.claims import Claim
from experiments.reproduce.judged_claims import judged_claims
from experiments.reproduce.judging import Judging, judge_claim
from experiments.reproduce.paper import load_table
from experiments.reproduce.recipes import load_recipe
from experiments.reproduce.storage import judge_storage
from experiments.reproduce.verdicts import judge
from lgx.architectures import NAMES, parse_architecture
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.initialization.expansion import take_layers
from lgx.results.comparison import Options
from tests.results.helpers import seeds

STORED = Claim.parse("sws > pretrained, stored")


def rows(method: str, values: list[float], epochs: int = 0, depth: int = 6) -> list[Row]:
    return seeds(method, values, epochs, architecture=f"depth={depth},embed_dim=16")


def starts(*methods: str, names: list[str]) -> list[Row]:
    return [Row(method, name, "shapes", "test", 1, "acc", 0.5, 0, 9, method) for method in methods for name in names]


def test_every_claim_of_the_index_is_written_as_it_is_read():
    index = yaml.safe_load(Path("experiments/index.yaml").read_text())
    entries = [entry for name, entry in index.items() if not name.startswith(".")]
    texts = [text for entry in entries for key in ("claims", "controls") for text in entry.get(key, ())]
    assert len(texts) > 60
    assert [str(Claim.parse(text)) for text in texts] == texts


@pytest.mark.parametrize(
    "text",
    [
        "sws untrained > random deepest", "sws > random, stored, trained", "sws deepest > sws shallowest, own networks",
        "tal", "tal > logah, soon", 3,
    ],
)  # fmt: skip
def test_a_claim_of_another_form_is_refused(text):
    with pytest.raises(UserError, match="expected 'METHOD > METHOD'"):
        Claim.parse(text)


def test_the_two_sides_of_a_claim_may_be_measured_at_different_stages():
    measured = [*rows("sws", [0.5, 0.6]), *rows("sws", [0.9, 0.9], 5), *rows("random", [0.1, 0.1])]
    claim = Claim.parse("sws untrained > random trained")
    assert judge(claim, measured).answer == "not measured"
    verdict = judge(claim, [*measured, *rows("random", [0.3, 0.4], 5)])
    assert verdict.measured.summary.mean == pytest.approx(20)
    assert verdict.differs == "sws untrained: 0 epochs; random trained: 5 epochs"
    assert judge(claim, [*measured, *rows("random", [0.3, 0.4], 5, depth=8)]).answer == "not measured"


def test_the_deepest_network_of_a_method_is_compared_with_its_shallowest():
    claim = Claim.parse("sws deepest > sws shallowest, untrained")
    measured = [*rows("sws", [0.5, 0.6], depth=4), *rows("sws", [0.1, 0.1], depth=6), *rows("sws", [0.9, 0.8], depth=8)]
    measured += [*rows("random", [1.0, 1.0], depth=10), *rows("sws", [0.0, 0.0], 3, depth=12)]
    verdict = judge(claim, measured)
    assert (verdict.measured.summary.mean, verdict.cells) == (pytest.approx(30), 1)
    assert verdict.differs == "sws deepest: 0 epochs of depth=8; sws shallowest: 0 epochs of depth=4"
    assert judge(claim, rows("sws", [0.5, 0.6])).answer == "not measured"


def test_a_claim_about_some_architectures_ignores_the_others():
    claim = Claim.parse("sws untrained > random trained")
    table = load_table("sws/table1")
    assert judge(claim, [], table).paper == pytest.approx(-2.53, abs=0.005)  # all ten depths
    recipe = load_recipe("sws/table1")
    deep = judge_claim(claim, [], recipe.judging("paper"), Options(), table)
    assert deep.paper == pytest.approx((1.0 + 1.0 + 1.1) / 3)  # the text's numbers
    assert recipe.judging("mini").paper_architectures == recipe.judging("paper").architectures
    pairs = [row for depth in (6, 8) for row in rows("sws", [0.1 * depth, 0.1 * depth], depth=depth)]
    pairs += [row for depth in (6, 8) for row in rows("random", [0.5, 0.4], 1, depth)]
    verdict = judge_claim(claim, pairs, Judging(architectures={claim: ("depth=8,embed_dim=16",)}), Options(), None)
    assert (verdict.measured.summary.mean, verdict.cells) == (pytest.approx(35), 1)


def test_a_method_that_stores_one_source_for_all_descendants_stores_fewer_parameters():
    names = [f"Des-B-{depth}" for depth in range(6, 16)]
    measured = starts("sws", "pretrained", names=names)
    verdict = judge_storage(STORED, measured, {"sws": "Aux-B", "pretrained": "each"}, load_table("sws/table2"))
    assert verdict.answer == "computed"
    assert verdict.paper == pytest.approx(759.3 / 37.0)
    assert verdict.factor == pytest.approx(20.5, abs=0.05)
    assert verdict.differs == "759.36 M against 36.95 M parameters to start 10 networks"
    turned = judge_storage(Claim.parse("pretrained > sws, stored"), measured, {"sws": "Aux-B", "pretrained": "each"})
    assert (turned.answer, turned.factor) == ("reversed", pytest.approx(1 / verdict.factor))
    one = judge_storage(STORED, measured[:1] + measured[-10:], {"sws": "Aux-B", "pretrained": "each"})
    assert one.factor == pytest.approx(cost_of(NAMES["Des-B-6"]).parameters / cost_of(NAMES["Aux-B"]).parameters)


def test_what_nobody_knows_to_be_stored_is_not_measured():
    measured = starts("sws", "pretrained", names=["Des-B-6"])
    for stored in ({}, {"sws": "Aux-B"}, {"pretrained": "each"}):
        assert judge_storage(STORED, measured, stored).answer == "not measured"
    assert judge_storage(STORED, [], {"sws": "Aux-B", "pretrained": "each"}).answer == "not measured"
    selected = judge_storage(Claim.parse("lsamd > pretrained, stored"), [], {}, load_table("lsamd/table2"))
    assert (selected.answer, selected.paper) == ("not measured", pytest.approx(787.03 / 36.11))  # 95.41 % saved


def test_the_committed_verdict_counts_the_parameters_of_the_learngene():
    stored = load_recipe("sws/table2").scales["mini"].judging.stored["sws"]
    auxiliary = parse_architecture(stored)
    learngene = Learngene("sws", auxiliary, take_layers(auxiliary.build().state_dict(), [0, 2, 5, 7, 10]))
    (found,) = (c for c in judged_claims([load_recipe("sws/table2")]) if c.verdict.claim == STORED)
    separate = [stored.split(",stages")[0].replace("depth=12", f"depth={n}") + ",num_classes=10" for n in (5, 7, 9)]
    each = sum(cost_of(parse_architecture(name)).parameters for name in separate)
    assert found.verdict.factor == pytest.approx(each / learngene.num_parameters)
    assert found.cells()[3:7] == ("4.1x", "–", "–", "–")
