"""The selections of LSAMD: gates, price, random paths, swaps, and whether two of them agree beyond chance."""

import os
import shutil
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from data_modules.multi_task.modules import MultiTask
from experiments.analyze.paths import against_chance, agreement, ranked_layers
from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.core.batch import Batch
from lgx.core.eval_transforms import renormalize
from lgx.core.task import Task
from lgx.methods import LSAMD
from lgx.methods.base import label_loss
from lgx.methods.lsamd.selection import Selection, SelectionRun
from lgx.methods.lsamd.super_ancestor import (
    DatasetAdapter,
    SuperAncestor,
    random_path,
    swapped_paths,
)
from tests.methods.lsamd.conftest import ARCH, SETS, arguments, images, super_ancestor
from tests.support.command_line import lgx, ok


@pytest.mark.parametrize("p", [0.9, 0.2])
def test_the_compared_gate_has_the_chosen_blocks_value_and_the_gradient_of_both(p):
    net = super_ancestor("batch", "compared", "mean").train()
    base, own = net.base.blocks[0], net.branches[0].blocks[0]
    x, probabilities = torch.randn(5, 17, 16), torch.full((5,), p, requires_grad=True)
    routed = net._route(x, probabilities, base, own)
    assert torch.equal(routed, (base if p > 0.5 else own)(x))
    (gradient,) = torch.autograd.grad(routed.square().sum(), probabilities, retain_graph=True)
    expected = (2 * routed * (base(x) - own(x))).sum(dim=(1, 2))
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-3)
    blocks = torch.autograd.grad(routed.sum(), list(own.parameters()), allow_unused=True)
    assert any(g is not None and bool(g.abs().sum() > 0) for g in blocks) == (p < 0.5)


def test_an_adapter_may_read_the_mean_of_the_tokens():
    adapter, tokens = DatasetAdapter(16, reads_class_token=False).eval(), torch.randn(3, 5, 16)
    nn.init.normal_(adapter.score.weight)
    torch.testing.assert_close(adapter(tokens), adapter(tokens.mean(dim=1, keepdim=True)))
    torch.testing.assert_close(adapter(tokens), adapter(tokens.flip(1)))


@given(path=st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_given_path_is_taken_whatever_the_adapters_prefer(path):
    net = super_ancestor("batch", "compared", "mean").eval()
    blocks = [(net.base if is_base else net.branches[0]).blocks[i] for i, is_base in enumerate(path)]
    x = net.base._pos_embed(net.base.patch_embed(images()))
    for block in blocks:
        x = block(x)
    expected = net.branches[0].head(net.base.norm(x)[:, 0])
    torch.testing.assert_close(net(images(), 0, path)[0], expected, atol=1e-5, rtol=1e-4)


def test_swapped_paths_replace_one_own_block_each():
    assert swapped_paths(2) == [[False, False], [True, False], [False, True]]


@given(st.integers(0, 99), st.integers(1, 12), st.integers(0, 9))
def test_random_paths_fill_their_share_of_the_training_and_depend_on_seed_and_step_alone(step, depth, seed):
    with mock.patch.dict(os.environ, PL_GLOBAL_SEED=str(seed)):
        path = random_path(0.4, step, 100, depth)
        assert path == random_path(0.4, step, 100, depth)
    assert (path is None) == (step >= 40)
    assert path is None or len(path) == depth


def test_random_paths_take_both_blocks_equally_often():
    drawn = [used for step in range(500) for used in random_path(0.5, step, 1000, 12)]
    assert 0.47 < sum(drawn) / len(drawn) < 0.53


def test_the_price_is_added_to_the_loss_except_on_random_paths():
    method, logits, labels = object.__new__(LSAMD), torch.randn(6, 3), torch.arange(6) % 3
    nn.Module.__init__(method)
    method.price, method.path, method.label_loss = 2.0, None, nn.functional.cross_entropy
    method.route = lambda batch, path=None: (logits, torch.full((4, 6), 0.25))
    found = method.training_losses(Batch(torch.zeros(6), labels, "a"))
    expected = nn.functional.cross_entropy(logits, labels)
    assert (found["loss_labels"], found["loss_price"]) == (expected, 2 * 4 * 0.75)
    assert found["loss"] == expected + 6
    method.tasks = {"a": Task("a", 3)}
    assert method.predict_step(Batch(torch.zeros(6), labels, "a"), 0) is logits


def test_a_tie_in_a_batch_chooses_the_base():
    prefers = torch.tensor([True, False])
    assert [super_ancestor()._majority(p) for p in (prefers, prefers & False)] == [True, False]


def selection(*paths, rise=None):
    return Selection({f"t{i}": [float(used) for used in path] for i, path in enumerate(paths)}, "batch", rise or {})


def test_kappa_needs_both_kinds_of_blocks_and_coin_flips_agree_with_chance():
    one, other = selection([True, False], [True, True]), selection([True, False], [False, True])
    assert agreement(one, other).kappa == pytest.approx(0.5)
    assert agreement(one, selection([True, True], [True, True])).kappa is None
    common = against_chance(selection(*[[True, True, False, False]] * 6))
    assert common.pvalue < 0.001
    assert common.statistic == pytest.approx(sum((g - 3) ** 2 for g in (6, 6, 0, 0)) / (6 * 0.25))
    even = against_chance(selection([True, False, True, False], [False, True, False, True]))
    assert (even.statistic, even.pvalue) == (0, 1)
    assert against_chance(selection([True] * 4)) is None


def test_swap_profiles_are_compared_by_rank_within_each_data_set():
    one = selection([True] * 4, [True] * 4, rise={"t0": [0.4, 0.1, 0.2, 0.3], "t1": [1.0, 2.0, 3.0, 4.0]})
    other = selection([True] * 4, [True] * 4, rise={"t0": [40, 10, 20, 30], "t1": [1.0, 2.0, 4.0, 3.0]})
    expected = (1 + stats.spearmanr([1, 2, 3, 4], [1, 2, 4, 3]).statistic) / 2
    assert agreement(one, other).rho == pytest.approx(expected)
    assert agreement(one, selection([True] * 4)).rho is None
    assert ranked_layers([one]) == [1, 0, 2, 3]
    assert ranked_layers([]) == []


@pytest.fixture(scope="module")
def selections(ancestor, tmp_path_factory):
    """Folders of three selections: at a high price, at none, and after random paths."""
    runs = tmp_path_factory.mktemp("selections") / "runs"
    options = {
        "dear": ("--model.price=100", "--model.random_paths=0"),
        "free": ("--model.price=0", "--model.random_paths=0", "--model.measure_swaps=true"),
        "drawn": ("--model.price=0.01", "--model.measure_swaps=true"),
    }
    for name, given_options in options.items():
        ok(lgx(*arguments(ancestor, runs, SETS[:2], "--model.threshold=0", *given_options, name=name)))
    return runs / "t"


@pytest.mark.parametrize(("name", "label"), [("dear", "lsamd_priced"), ("free", "lsamd_compared")])
def test_rows_and_the_selection_name_the_gate_and_a_high_price_leaves_no_own_block(selections, name, label):
    rows = (selections / name / "seed0/results.csv").read_text().splitlines()[1:]
    assert rows
    assert all(row.startswith(f"{label},") for row in rows)
    found = SelectionRun.load(selections / name / "seed0").selection
    assert f"lsamd{found.gate}" == label
    assert name == "free" or all(all(path) for path in found.paths.values())  # a high price leaves no own block


def test_a_selection_is_that_of_the_end_of_training_whatever_epoch_was_best(selections, tmp_path):
    """Before the end, paths may be random: then no adapter prefers a block, and all of them count as shared."""
    folder = shutil.copytree(selections / "drawn/seed0", tmp_path / "run")
    best, last = (load_checkpoint(folder / f"checkpoints/{name}.ckpt") for name in ("best", "last"))
    best["state_dict"] |= {name: torch.ones(4) for name in best["state_dict"] if name.endswith("base_share")}
    torch.save(best, folder / "checkpoints/best.ckpt")
    expected = last["state_dict"]["network.branches.0.base_share"].tolist()
    assert expected != [1] * 4
    assert SelectionRun.load(folder).selection.base_share["one"] == expected


def test_swaps_are_those_of_the_stored_weights(selections, ancestor):
    stored = SelectionRun.load(selections / "free/seed0")
    base = parse_architecture(ARCH, num_classes=10).build()
    net = SuperAncestor(base, [Task("", n) for n in (3, 3)], "batch", measures_swaps=True)
    net.base.reset_classifier(0)
    net.load_state_dict(dict(stored.state))
    net.eval()
    folders = tuple(str(ancestor.parent / name) for name in SETS[:2])
    multi = MultiTask(folders, img_size=32, batch_size=16, limit_eval=40)
    multi.setup("fit")
    sums = torch.zeros(2, 5)
    with torch.no_grad():
        for batch in multi.val_dataloader():
            number = list(multi.all_tasks).index(batch.task)
            seen = renormalize(batch.inputs, multi.all_tasks[batch.task], (0.4,) * 3, (0.2,) * 3)  # as the ancestor
            losses = [label_loss(net(seen, number, p)[0], batch.targets, 0.0) for p in swapped_paths(4)]
            sums[number] += torch.stack(losses) * len(batch.inputs) / 40
    expected = (sums[:, 1:] - sums[:, :1]).tolist()
    for rise, name in zip(expected, SETS[:2], strict=True):
        assert stored.selection.swap_rise[name] == pytest.approx(rise, abs=2e-3)
