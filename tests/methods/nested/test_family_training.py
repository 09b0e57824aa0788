"""The training of families: updates, budgets, front, and what is refused."""

import json
from collections import Counter
from contextlib import nullcontext
from functools import partial
from itertools import permutations
from statistics import fmean
from types import SimpleNamespace

import pytest
import timm
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import architecture_of
from lgx.components.metrics import metrics_for
from lgx.core.batch import Batch
from lgx.core.rows import read_rows
from lgx.core.task import Task
from lgx.initialization import Front
from lgx.methods import Family
from lgx.methods.nested.front import best_of, knee, measured_front
from lgx.methods.nested.shares import EqualCompute
from lgx.methods.nested.slicing import sliced
from tests.methods.nested.test_family import SIZES, front_of
from tests.support.command_line import arguments, lgx, ok


def made(ancestor, sizes=("depth=2", "depth=1,embed_dim=8"), **options):
    """A method and its ordered ancestor, without a trainer."""
    learngene = Learngene.load(ancestor / f"final{SUFFIX}")
    method = Family(
        arch=learngene.architecture.spec(), optimizer=partial(torch.optim.SGD, lr=1), ancestor=str(ancestor),
        num_classes=learngene.architecture.num_classes, sizes=list(sizes), **options,
    )  # fmt: skip
    method.network = method.architecture.build()
    method.network.load_state_dict(learngene.tensors)
    method.network.register_buffer("layer_order", torch.tensor([1.9999, 0.0, 3.0, 1.0]))
    return method.train()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_an_update_has_the_gradients_of_one_plain_network_with_the_labels(ancestor, smoothing):
    method = made(ancestor, label_smoothing=smoothing)
    whole, classes = method.architecture, method.architecture.num_classes
    inputs, targets = torch.randn(6, 3, 16, 16), torch.arange(6) % classes
    for size in method.measured:
        tensors = {name: p.detach().clone().requires_grad_() for name, p in method.network.named_parameters()}
        model = timm.create_model(size.timm_name, pretrained=False, **size.timm_args())
        logits = functional_call(model, sliced(tensors, whole, size, [2, 0, 3, 1]), (inputs,))
        wanted = F.cross_entropy(logits, targets, label_smoothing=smoothing)
        wanted.backward()
        method.zero_grad()
        method.drawn = [size]
        loss = method.training_losses(Batch(inputs, targets, "t"))["loss"]
        torch.testing.assert_close(loss, wanted)
        loss.backward()
        for name, parameter in method.network.named_parameters():
            assert (parameter.grad is None) == (tensors[name].grad is None), name
            if parameter.grad is not None:
                torch.testing.assert_close(parameter.grad, tensors[name].grad, msg=name)
    torch.testing.assert_close(method(inputs), method.logits(method.measured[0], inputs))


@settings(max_examples=30)
@given(updates=st.integers(1, 3000))
def test_all_sizes_get_the_same_compute_at_any_time_of_a_run(ancestor, updates):
    method = made(ancestor, sizes=["depth=2", "depth=1,embed_dim=8", "depth=1,embed_dim=8,mlp_ratio=2"])
    drawn = Counter(id(method.updates.group(update, seed=updates)) for update in range(updates))
    *trained, _ = method.updates.groups
    assert trained == [[size] for size in [*method.listed, method.architecture]]
    macs = [1 / fmean(1 / size.count_macs() for size in group) for group in method.updates.groups]
    each = updates / sum(1 / count for count in macs)
    assert all(abs(drawn[id(g)] - each / count) < 4 for g, count in zip(method.updates.groups, macs, strict=True))


def test_updates_that_need_a_teacher_cost_its_pass_too():
    whole = parse_architecture("depth=4,embed_dim=16,num_heads=2,patch_size=4,img_size=16")
    sizes = [whole.replace(depth=depth) for depth in (1, 3)]
    shares = EqualCompute([[size] for size in sizes], whole.count_macs() / 3).shares
    flops = [3 * size.count_macs() + whole.count_macs() for size in sizes]
    assert shares[0] * flops[0] == pytest.approx(shares[1] * flops[1])


def test_random_sizes_have_the_compute_of_one_size_and_are_drawn_by_seed_and_update(ancestor):
    updates = made(ancestor).updates
    drawn = [updates.size(update, seed=3) for update in range(4000)]
    assert drawn == [updates.size(update, seed=3) for update in range(4000)]
    assert fmean(size.count_macs() for size in drawn) == pytest.approx(updates.mean_cost, rel=0.03)
    others = {size for size in drawn if [size] not in updates.groups}
    assert len(others) > 4
    assert others != {updates.size(update, seed=4) for update in range(400)}


@pytest.mark.parametrize(("compute", "accumulate"), [(0.1, 1), (300, 1), (300, 4)])
def test_a_budget_is_that_of_training_the_ancestor_or_600_updates_of_the_smallest_size(ancestor, compute, accumulate):
    method = made(ancestor, compute=compute)
    loader = SimpleNamespace(train_dataloader=lambda: SimpleNamespace(epoch_length=3))
    method.data_module = lambda: loader
    method._trainer = SimpleNamespace(max_epochs=-1, max_steps=-1, accumulate_grad_batches=accumulate)
    steps, whole = method.planned_steps(), method.architecture.count_macs()
    spent, smallest = steps * method.updates.mean_cost, max(method.updates.shares[:-1]) * steps
    assert smallest >= 600 * 0.99
    if compute > 1:
        assert spent == pytest.approx(compute * -(-3 // accumulate) * whole, rel=0.12)  # whole intervals of validation
    else:
        assert smallest < 600 * 1.12
    method._trainer.max_steps = 7
    assert method.planned_steps() == 7


@pytest.mark.parametrize("limit", [-1, 4])
def test_a_run_with_a_budget_validates_its_last_weights_and_says_what_ends_it_earlier(
    ancestor, images, tmp_path, monkeypatch, limit
):
    monkeypatch.setattr("lgx.methods.nested.equal_sizes._LEAST_UPDATES", 1)
    given = arguments("fit", "Family", images, tmp_path, f"--model.ancestor={ancestor}", SIZES, "--name=b")
    done = ok(lgx(*given, "--model.compute=4", f"--trainer.max_epochs={limit}"))
    run = tmp_path / "test/b/seed0"
    epochs = json.loads((run / "summary.json").read_text())["epochs"]
    validated = {row.epochs for row in read_rows(run / "results.csv") if row.split == "val"}
    if limit > 0:
        assert epochs == limit
        assert "length " in done.out
    else:
        assert epochs > 12
        assert "length " not in done.out
        assert len(validated) <= 10
    assert max(validated) == epochs


def measured_fronts(monkeypatch):
    """A function that measures the front of a method on four images, without a trainer."""
    monkeypatch.setattr("lgx.methods.nested.front.metrics_for", lambda task: metrics_for(Task("t", 3)))
    batch = Batch(torch.randn(4, 3, 16, 16), torch.arange(4) % 3, "t")

    def front(method, sizes, metric="acc"):
        method.task = SimpleNamespace(metric=metric)
        plain = SimpleNamespace(val_step_context=nullcontext, convert_input=lambda batch: batch)
        method._trainer = SimpleNamespace(
            limit_val_batches=1.0, is_global_zero=False, precision_plugin=plain,
            strategy=SimpleNamespace(batch_to_device=lambda batch: batch),
        )  # fmt: skip
        method.data_module = lambda: SimpleNamespace(val_dataloader=lambda: iter([batch]))
        return measured_front(method, sizes)

    return front


def test_a_score_that_is_no_number_is_left_out_of_the_front(ancestor, monkeypatch):
    method, front = made(ancestor), measured_fronts(monkeypatch)
    method.logits = lambda size, inputs: torch.full((len(inputs), 3), torch.nan if size.depth < 3 else 0.0)
    sizes = [method.architecture.replace(depth=depth) for depth in (1, 2, 3, 4)]
    assert [size.depth for size in front(method, sizes, "loss").scores] == [3, 4]
    assert front(method, sizes[:2], "loss") is None


def test_the_error_of_the_best_score_counts_each_image_once(ancestor, images, tmp_path, monkeypatch):
    """Networks of one task share its images: the error of their mean is the mean of their errors."""
    monkeypatch.setattr("lgx.methods.nested.family.fit_head", lambda method: None)
    given = arguments("fit", "Family", images, tmp_path, f"--model.ancestor={ancestor}", SIZES)
    assert lgx(*given, "--name=balanced", "--data.balanced=true", "--trainer.max_epochs=1").code == 0
    run = tmp_path / "test/balanced/seed0"
    measured = read_rows(run / "results.csv")
    rows = [row for row in measured if (row.split, row.metric) == ("val", "balanced_acc")]
    states = load_checkpoint(run / "checkpoints/last.ckpt")["callbacks"].values()
    (state,) = (state for state in states if "best_error" in state)
    assert [state["examples"]] * 3 == [row.n for row in rows] == [9, 9, 9]
    assert 0 < state["best_error"] == pytest.approx(fmean((row.value * (1 - row.value) / 9) ** 0.5 for row in rows))


def test_the_head_follows_the_names_of_the_classes(ancestor, images, tmp_path):
    learngene = Learngene.load(ancestor / f"final{SUFFIX}")
    names = learngene.task["class_names"]
    order = [*range(len(names))][::-1]
    turned = {name: t[order] if name.startswith("head.") else t for name, t in learngene.tensors.items()}
    file = tmp_path / f"turned{SUFFIX}"
    Learngene("ancestor", learngene.architecture, turned, task={**learngene.task, "class_names": names[::-1]}).save(
        file
    )
    found = []
    for source in (ancestor, file):
        options = [f"--model.ancestor={source}", SIZES, f"--name={'own' if source == file else 'turned'}"]
        assert lgx(*arguments("fit", "Family", images, tmp_path, *options)).code == 0
        found.append(Learngene.load(tmp_path / "test" / options[-1][7:] / "seed0" / f"final{SUFFIX}").tensors)
    assert all(torch.allclose(found[0][name], tensor, atol=1e-6) for name, tensor in found[1].items())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (['--model.sizes=["depth=5"]'], "5 layers, but the learngene has 4"),
        (['--model.sizes=["img_size=32"]'], "slices differ in depth"),
        (["--model.sizes=[]"], "at least one size"),
        (["--model.compute=0"], "model.compute"),
        (["--data.labels=false"], "needs labels"),
    ],
)
def test_what_no_family_has_is_refused(ancestor, images, tmp_path, options, words):
    done = lgx(*arguments("fit", "Family", images, tmp_path, f"--model.ancestor={ancestor}", *options))
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert words in done.sentence
    assert not list(tmp_path.rglob("*.ckpt"))


def test_the_next_command_names_the_smallest_size_within_one_standard_error_of_the_best(ancestor, tmp_path):
    method = made(ancestor)
    whole = method.architecture
    sizes = [whole.replace(depth=depth) for depth in (1, 2, 3)]
    for examples, wanted in ((0, 3), (10_000, 3), (100, 2), (9, 1)):  # errors of 0, 0.005, 0.05 and 0.17
        method.front = Front("acc", dict(zip([*sizes, whole], (0.4, 0.47, 0.5, 0.49), strict=True)), examples)
        assert f"--arch depth={wanted}," in method.next_command(tmp_path), examples
    front = Front("perplexity", dict(zip([*sizes, whole], (30.0, 20.0, 25.0, 21.0), strict=True)))
    assert best_of(front) == sizes[:2]
    assert knee(front) == sizes[1]


def test_the_front_has_one_order_whatever_the_order_of_its_sizes(ancestor, monkeypatch):
    method, front = made(ancestor), measured_fronts(monkeypatch)
    twins = [method.architecture.replace(num_heads=heads) for heads in (1, 2, 4)]  # of equal parameters
    method.logits = lambda size, inputs: torch.zeros(len(inputs), 3)
    orders = [list(front(method, order).scores) for order in permutations(twins)]
    assert all(order == orders[0] for order in orders)


@pytest.mark.parametrize(
    ("resumes", "work"),
    [
        ("last", "methods.nested.family.measured_front"),
        ("of another run", "methods.nested.family.measured_front"),
        ("last", "methods.nested.family.fit_head"),
        ("last", "training.cli.LgxCLI._validate_again"),
    ],
)
def test_a_run_that_was_killed_after_its_last_update_is_finished(
    ancestor, images, tmp_path, monkeypatch, resumes, work
):
    given = arguments("fit", "Family", images, tmp_path, f"--model.ancestor={ancestor}", SIZES)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"lgx.{work}", killed)
        assert lgx(*given, "--name=k").code == 130
    last = tmp_path / "test/k/seed0/checkpoints/last.ckpt"
    again = ["--name=k", "--ckpt_path=last"] if resumes == "last" else ["--name=other", f"--ckpt_path={last}"]
    ok(lgx(*given, *again))
    ok(lgx(*given, "--name=whole"))
    folder = tmp_path / "test" / again[0][7:] / "seed0"
    whole = tmp_path / "test/whole/seed0"
    assert front_of(folder) == front_of(whole)
    summaries = [json.loads((run / "summary.json").read_text()) for run in (folder, whole)]
    assert summaries[0]["start_flops"] == summaries[1]["start_flops"]


def test_a_head_for_other_classes_is_replaced_and_one_for_these_classes_is_kept(
    ancestor, images, headless, tmp_path, monkeypatch
):
    monkeypatch.setattr(Family, "finishes", False)
    own = Learngene.load(ancestor / f"final{SUFFIX}").tensors["head.weight"]
    frozen = "--model.optimizer.lr=0", "--trainer.max_epochs=1"
    for source, keeps in ((ancestor / f"final{SUFFIX}", True), (headless, False)):
        own_arch = architecture_of(str(source)).spec()
        given = arguments("fit", "Family", images, tmp_path, f"--model.ancestor={source}", SIZES, *frozen)
        done = ok(lgx(*given, f"--name={keeps}", f"--model.arch={own_arch}"))
        head = Learngene.load(tmp_path / f"test/{keeps}/seed0/final{SUFFIX}").tensors["head.weight"]
        same = head.sum(1).sort().values
        assert torch.allclose(same, own.sum(1).sort().values) == keeps
        assert ("head " in done.out) != keeps
