"""LSAMD: routing, selection of layers, extraction and expansion."""

import csv
import dataclasses
import math

import pytest
import torch
from torch import nn

from data_modules.catalog import open_set
from data_modules.multi_task.modules import MultiTask
from experiments.analyze.paths import common_layers, load_runs
from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.cli import main
from lgx.core.eval_transforms import renormalize
from lgx.core.rows import read_rows
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import SelectedExpansion
from lgx.methods.lsamd.selection import Selection, SelectionRun, extract_learngene
from lgx.methods.lsamd.super_ancestor import DatasetAdapter, SuperAncestor
from tests.methods.lsamd.conftest import ARCH, SETS, arguments, images, super_ancestor
from tests.support import fake_masks
from tests.support.command_line import analyze, lgx, refusal
from tests.support.families import tiny


def naive(net, x, number, routing):
    """Every image separately, by the paper's equations."""
    base, branch = net.base, net.branches[number]
    tokens = base._pos_embed(base.patch_embed(x))
    table = []
    for i in range(len(base.blocks)):
        cls = tokens[:, 0]
        w1, w2 = branch.adapters[i].score.weight, branch.adapters[i].spread.weight
        scores = cls @ w1.T + torch.log(1 + torch.exp(cls @ w2.T))
        p_base = (scores.exp() / scores.exp().sum(1, keepdim=True))[:, 1]
        wants = [float(p) >= 0.5 for p in p_base.detach()]
        if routing == "batch":
            wants = [sum(wants) >= len(wants) / 2] * len(wants)
        rows = [(base.blocks[i] if w else branch.blocks[i])(t[None]) for w, t in zip(wants, tokens, strict=True)]
        tokens = torch.cat(rows)
        table.append((p_base, wants))
    return branch.head(base.norm(tokens)[:, 0]), table


@pytest.mark.parametrize("routing", ["batch", "image"])
@pytest.mark.parametrize("number", [0, 1])
def test_routing_agrees_with_the_papers_equations(routing, number):
    net = super_ancestor(routing).eval()
    logits, probabilities = net(images(), number)
    expected, table = naive(net, images(), number, routing)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(probabilities, torch.stack([p for p, _ in table]), atol=1e-5, rtol=1e-5)
    taken = {w for _, wants in table for w in wants}
    assert taken == {True, False}, "the oracle shall see both kinds of block"


@pytest.mark.parametrize("family", ["plain", "deit_distilled", "dinov2_registers", "dinov3", "eva02", "siglip"])
def test_an_untrained_super_ancestor_computes_the_ancestors_features_in_every_family(family):
    torch.manual_seed(0)
    base = tiny(family, num_classes=0).build().eval()
    pixels = torch.randn(3, 3, 16, 16)
    expected = base.forward_head(base.forward_features(pixels), pre_logits=True)
    net = SuperAncestor(base, [Task("a", 4)], "image").eval()
    for adapter in net.branches[0].adapters:
        nn.init.normal_(adapter.score.weight, std=5.0)  # images take different ways through equal blocks
    nn.init.normal_(net.branches[0].head.weight)
    logits, probabilities = net(pixels, 0)
    torch.testing.assert_close(logits, net.branches[0].head(expected), atol=1e-5, rtol=1e-5)
    assert probabilities.shape == (2, 3)


def test_a_routed_layer_has_exactly_the_chosen_blocks_value_and_the_gates_gradient():
    net = super_ancestor().train()
    x = torch.randn(5, 17, 16)
    base, own = net.base.blocks[0], net.branches[0].blocks[0]
    for p, block in ((torch.full((5,), 0.9), base), (torch.full((5,), 0.2), own)):
        p = p.requires_grad_()
        routed = net._route(x, p, base, own)
        assert torch.equal(routed, block(x))
        (gradient,) = torch.autograd.grad(routed.square().sum(), p)
        update = block(x) - x
        chosen = torch.ones(5, requires_grad=True)
        scaled = x + chosen[:, None, None] * update.detach()
        (expected,) = torch.autograd.grad(scaled.square().sum(), chosen)
        torch.testing.assert_close(gradient, expected if block is base else -expected, rtol=1e-3, atol=1e-3)


def test_a_gate_gets_the_gradient_of_its_block_alone_in_image_routing():
    net = super_ancestor("image").train()
    x, p = torch.randn(4, 17, 16), torch.tensor([0.9, 0.1, 0.5, 0.4], requires_grad=True)
    base, own = net.base.blocks[1], net.branches[0].blocks[1]
    routed = net._route(x, p, base, own)
    expected = torch.cat([base(x[:1]), own(x[1:2]), base(x[2:3]), own(x[3:])])
    torch.testing.assert_close(routed, expected)
    (gradient,) = torch.autograd.grad(routed[1].sum(), p)
    assert gradient[1] != 0
    assert gradient[[0, 2, 3]].abs().sum() == 0


def test_noise_is_drawn_in_training_only():
    adapter, tokens = DatasetAdapter(16), torch.randn(64, 3, 16)
    torch.manual_seed(0)
    drawn = adapter.train()(tokens)
    torch.manual_seed(0)
    torch.testing.assert_close(drawn, (math.log(2) * torch.randn(64, 2)).softmax(1)[:, 1])  # log(2) is softplus(0)
    assert (adapter.eval()(tokens) == 0.5).all()


SHARES = {"a": [0.9, 0.1, 0.6, 0.5], "b": [0.8, 0.2, 0.4, 0.5], "c": [1.0, 0.7, 0.1, 0.0], "d": [0.2, 0.1, 0.1, 0.9]}


def test_usage_counts_the_data_sets_that_use_a_base_block():
    selection = Selection(SHARES, "batch")
    assert selection.usage == [3, 1, 1, 3]
    assert selection.layers() == [0, 3], "more than half of four data sets"
    assert selection.threshold() == len(SHARES) / 2
    assert Selection({**SHARES, "e": SHARES["b"]}, "batch").layers() == [0, 3], "more than 2.5"


@pytest.mark.parametrize(("threshold", "what"), [(3, "selects no layer"), (0, "selects all layers")])
def test_a_threshold_that_selects_no_or_all_layers_is_refused(threshold, what):
    with pytest.raises(UserError, match=rf"threshold {threshold} {what}.*usage 3 1 1 3.*choose 1$"):
        Selection(SHARES, "batch").layers(threshold)
    with pytest.raises(UserError, match=r"choose 0$"):
        Selection({"a": [0.9, 0.1, 0.1]}, "batch").layers(5)


def test_selections_of_different_data_sets_merge_and_others_and_unmeasured_ones_are_refused():
    one, other = Selection({"a": SHARES["a"]}, "batch"), Selection({"b": SHARES["b"]}, "batch")
    assert one.merged(other).usage == [2, 0, 1, 2]
    with pytest.raises(UserError, match="data set a is in two runs"):
        one.merged(one)
    with pytest.raises(UserError, match="routed by batch, another by image"):
        one.merged(Selection({"b": SHARES["b"]}, "image"))
    with pytest.raises(UserError, match="of lsamd_priced, another of lsamd_compared"):
        dataclasses.replace(one, gate="_priced").merged(dataclasses.replace(other, gate="_compared"))
    assert common_layers(one, Selection({"a": SHARES["c"]}, "image")) == {"a": [0]}
    with pytest.raises(UserError, match="the path of second is unknown"):
        Selection({"first": [0.0, 1.0], "second": [float("nan")] * 2}, "batch")


@pytest.fixture(scope="module")
def selection_run(ancestor, tmp_path_factory):
    """A selection run over three sets that has nothing which the paper's text lacks."""
    runs = tmp_path_factory.mktemp("lsamd") / "runs"
    plain = ("--model.gate=chosen", "--model.token=class", "--model.price=0", "--model.random_paths=0")
    main(arguments(ancestor, runs, SETS, *plain, "--model.threshold=0", "--test_end"))
    return runs / "t/selection/seed0"


def test_base_blocks_are_frozen_and_the_others_learn(selection_run, ancestor):
    before, run = Learngene.load(ancestor).tensors, SelectionRun.load(selection_run)
    assert run.base.keys() == {name for name in before if not name.startswith("head.")}
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.base.items())
    for number in range(3):
        moved = [
            not torch.equal(run.state[f"branches.{number}.{name}"], before[name])
            for name in before
            if name.startswith("blocks.")
        ]
        assert any(moved)


def test_paths_are_those_of_the_validation_images(selection_run, ancestor):
    """The stored shares and probabilities, counted again from the checkpoint with the naive equations."""
    run = SelectionRun.load(selection_run)
    architecture = parse_architecture(ARCH, num_classes=10)
    network = SuperAncestor(architecture.build(), [Task("", n) for n in (3, 3, 3)], "batch").eval()
    network.base.reset_classifier(0)
    network.load_state_dict(dict(run.state))
    for number, name in enumerate(run.about["tasks"]):
        data = open_set(str(ancestor.parent / name))
        data.img_size = 32
        data.setup("fit")
        multi = MultiTask((str(ancestor.parent / name),), img_size=32, batch_size=16, limit_eval=40)
        multi.setup("fit")
        sums, total = torch.zeros(2, 4), 0
        with torch.no_grad():
            for batch in multi.val_dataloader():
                _, table = naive(network, renormalize(batch.inputs, data.task, (0.4,) * 3, (0.2,) * 3), number, "batch")
                sums += torch.tensor([[float((p >= 0.5).sum()), float(p.sum())] for p, _ in table]).T
                total += len(batch.inputs)
        assert total == 40
        shares, probabilities = (sums / total).tolist()
        assert run.selection.base_share[name] == pytest.approx(shares, abs=1e-6)
        assert run.state[f"branches.{number}.probability"].tolist() == pytest.approx(probabilities, abs=1e-6)


def test_results_have_a_row_for_every_data_set_and_routing_is_drawn(selection_run):
    rows = (selection_run / "results.csv").read_text().splitlines()
    for task in SETS:
        assert any(row.startswith("lsamd,") and f",{task},val,2,acc," in row for row in rows)
    assert "<svg" in (selection_run / "routing.svg").read_text()
    callbacks = load_checkpoint(selection_run / "checkpoints/best.ckpt")["callbacks"]
    (score,) = (state["best_model_score"] for name, state in callbacks.items() if "val/acc" in name)
    measured = [row for row in read_rows(selection_run / "results.csv") if row.metric == "acc"]
    values = [row.value for row in measured if row.split == "val"]
    assert score == pytest.approx(max(sum(values[:3]), sum(values[3:])) / 3)  # of the better epoch
    page = (selection_run / "report.html").read_text()
    for row in (row for row in measured if row.split == "test"):
        with (selection_run / f"test_classes-{row.task}.csv").open() as file:
            right = [float(line["recall"]) * int(line["examples"]) for line in csv.DictReader(file)]
        assert sum(right) / row.n == pytest.approx(row.value)
        assert f'id="confusion-{row.task}-figure_1"' in page


def with_shares(run, shares):
    """The same run with other shares as the result of its validation."""
    measured = {f"branches.{i}.base_share": torch.tensor(row) for i, row in enumerate(shares)}
    return SelectionRun(run.about, {**run.state, **measured})


@pytest.fixture
def learngene(selection_run, tmp_path):
    """Layers 0, 2 and 3 of the ancestor."""
    shares = [[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    path = tmp_path / "l.learngene.safetensors"
    extract_learngene([with_shares(SelectionRun.load(selection_run), shares)]).save(path)
    return path


def test_extraction_keeps_the_layers_their_origin_and_the_ancestors_normalization(learngene, ancestor):
    found, source = Learngene.load(learngene), Learngene.load(ancestor).tensors
    assert found.selection["layers"] == [0, 2, 3]
    assert found.selection["usage"] == [2, 0, 3, 2]
    assert found.selection["paths"]["three"] == [False, False, True, True]
    for position, layer in enumerate([0, 2, 3]):
        assert torch.equal(found.tensors[f"blocks.{position}.mlp.fc1.weight"], source[f"blocks.{layer}.mlp.fc1.weight"])
    assert not any(name.startswith("head.") for name in found.tensors)
    assert "blocks.0 blocks.2 blocks.3 of the ancestor" in found.describe()
    origin = SelectedExpansion(str(learngene)).origin()
    assert (origin.mean, origin.std) == ((0.4,) * 3, (0.2,) * 3)  # the ancestor's, not that of the data sets


@pytest.mark.parametrize(
    ("options", "layers", "method"),
    [
        ({}, [0, 2, 3, 3, 3], "lsamd"),
        ({"priority": "first"}, [0, 0, 0, 2, 3], "lsamd_first"),
        ({"priority": "last"}, [0, 2, 3, 3, 3], "lsamd_last"),
    ],
)
def test_a_descendant_gets_the_expanded_layers(learngene, ancestor, options, layers, method):
    initializer = SelectedExpansion(str(learngene), **options)
    if not options:
        layers = [0, 0, 2, 3, 3]  # last, then first: two stages have no middle
    architecture = parse_architecture(ARCH.replace("depth=4", "depth=5"), num_classes=7)
    state, source = initialize(architecture, initializer).model.state_dict(), Learngene.load(ancestor).tensors
    assert initializer.method == method
    for target, layer in enumerate(layers):
        name = "attn.qkv.weight"
        assert torch.equal(state[f"blocks.{target}.{name}"], source[f"blocks.{layer}.{name}"])
    assert torch.equal(state["pos_embed"], source["pos_embed"])


def test_runs_of_single_data_sets_are_merged_by_extract(ancestor, tmp_path):
    for task in SETS[:2]:
        main(arguments(ancestor, tmp_path / "runs", [task], "--trainer.max_epochs=1", name=task))
    runs = [str(tmp_path / f"runs/t/{task}/seed0") for task in SETS[:2]]
    usage = [sum(used) for used in zip(*(SelectionRun.load(r).selection.paths[n] for r, n in
             zip(runs, SETS[:2], strict=True)), strict=True)]  # fmt: skip
    possible = [t for t in (0, 1) if 0 < sum(u > t for u in usage) < 4]
    out = tmp_path / "m.learngene.safetensors"
    if not possible:
        assert "selects" in refusal(lgx("extract", *runs, "--out", out))
        assert not out.exists()
        return
    main(["extract", *runs, f"--out={out}", f"--threshold={possible[0]}"])
    assert Learngene.load(out).selection["usage"] == usage
    assert "usage" in analyze("paths", f"--runs={','.join(runs)}", f"--out={tmp_path / 'p.svg'}").out
    assert "<svg" in (tmp_path / "p.svg").read_text()
    (found,) = load_runs(["+".join(runs)]).values()
    assert (list(found.paths), found.usage) == (["one", "two"], usage)
    twice = analyze("paths", f"--runs={runs[0]}+{runs[0]}", f"--out={tmp_path / 'p.svg'}")
    assert "data set one is in two runs" in twice.sentence


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--model.mixup=0.5"], "no path of one data set"),
        (["--model.drop_path_rate=0.1"], "model.drop_path_rate: a dropped layer"),
        (["--trainer.callbacks+=EMAWeightAveraging"], "leave WeightAveraging"),
        (["--trainer.limit_val_batches=1"], "would leave out whole tasks"),
    ],
)
def test_wrong_options_end_with_one_sentence(ancestor, tmp_path, more, sentence):
    given = arguments(ancestor, tmp_path / "runs", SETS[:2], *more)
    assert sentence in refusal(lgx(*given))


def test_segmentation_reads_tokens_after_the_last_norm_of_a_network_that_pools():
    torch.manual_seed(0)
    base = tiny("eva02", num_classes=0).build().eval()
    nn.init.normal_(base.fc_norm.weight)
    net = SuperAncestor(base, [Task("masks", 4, kind="segmentation")], "batch").eval()
    pixels = torch.randn(3, 3, 16, 16)
    with torch.no_grad():
        tokens = base.fc_norm(base.forward_features(pixels))[:, base.num_prefix_tokens :]
        expected = net.branches[0].head(tokens).mT.unflatten(2, (2, 2))
        logits, _ = net(pixels, 0)
    torch.testing.assert_close(nn.functional.interpolate(expected, size=(16, 16), mode="bilinear"), logits)


def test_classification_and_segmentation_train_together(ancestor, tmp_path):
    runs = tmp_path / "runs"
    fake_masks.voc12(ancestor.parent / "data")
    main(arguments(ancestor, runs, ["one", "voc12"], "--data.batch_size=4", "--trainer.max_epochs=1"))
    run = runs / "t/selection/seed0"
    rows = (run / "results.csv").read_text().splitlines()
    assert any(",voc12,val,1,miou," in row for row in rows)
    assert any(",one,val,1,acc," in row for row in rows)
    found = SelectionRun.load(run)
    assert list(found.selection.paths) == ["one", "voc12"]
    assert found.state["branches.1.head.weight"].shape == (21, 16)
