"""The head of a family: its learning rate, and its fit when training ends."""

import json
from dataclasses import replace
from functools import partial
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch import Trainer

from data_modules import ImageFolderData
from lgx import load_family
from lgx.architectures import parse_any_architecture, parse_architecture
from lgx.artifacts.checkpoints import FINAL, load_checkpoint
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import architecture_of
from lgx.core.batch import Batch
from lgx.core.rows import read_rows
from lgx.core.task import IGNORE, Task
from lgx.methods import Family
from lgx.methods.nested.head import HeadInputs, _by_width, ends_with_linear, fit_head, fit_temperature
from tests.support.command_line import arguments, lgx, ok
from tests.support.fake_text import SIZE

SIZES = f"--model.sizes={json.dumps(['depth=2', 'depth=1,embed_dim=8'])}"
CHECKPOINTS = "test/f/seed0/checkpoints"


def run(images, folder, ancestor, *options):
    """Train a family for an epoch of three updates; its folder of checkpoints."""
    ok(lgx(*arguments("fit", "Family", images, folder, f"--model.ancestor={ancestor}", SIZES, "--name=f", *options)))
    return folder / CHECKPOINTS


@pytest.mark.parametrize(
    ("text", "is_linear"),
    [
        ("depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=16", True),
        (f"hf:depth=2,embed_dim=24,num_heads=3,max_len=8,vocab_size={SIZE},type=bert", True),
        (f"hf:depth=2,embed_dim=24,num_heads=3,max_len=8,vocab_size={SIZE},type=llama", True),
        ("form=deit_tiny_distilled_patch16_224,depth=2,embed_dim=192,num_heads=3,img_size=32", False),  # two heads
    ],
)
def test_a_head_is_fitted_where_the_logits_are_one_linear_layer_of_one_vector(text, is_linear):
    architecture = parse_any_architecture(text).replace(num_classes=3)
    assert ends_with_linear(architecture) == is_linear


def test_a_network_of_pixels_keeps_its_trained_head():
    pixels = parse_architecture("depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=16", num_classes=3)
    assert not ends_with_linear(pixels.replace(kind="segmentation"))


@pytest.fixture(scope="module")
def finished(ancestor, images, tmp_path_factory):
    """The checkpoints of a run of four epochs."""
    return run(images, tmp_path_factory.mktemp("finished"), ancestor, "--trainer.max_epochs=4")


@pytest.mark.parametrize("average", [[], ["--trainer.callbacks+=EMAWeightAveraging"]])
def test_only_the_head_changes_when_training_ends(ancestor, images, finished, tmp_path, average):
    checkpoints = run(images, tmp_path, ancestor, *average) if average else finished
    final = load_checkpoint(checkpoints / "final.ckpt")["state_dict"]
    last = load_checkpoint(checkpoints / "last.ckpt")
    before = last["state_dict"]  # with an average: the average
    changed = {name for name, tensor in final.items() if not torch.equal(tensor, before[name])}
    assert changed == {"network.head.weight", "network.head.bias"}
    learngene = Learngene.load(checkpoints.parent / f"final{SUFFIX}")
    assert torch.equal(learngene.tensors["head.weight"], final["network.head.weight"])
    rows = [row for row in read_rows(checkpoints.parent / "results.csv") if (row.split, row.metric) == ("val", "acc")]
    scores = [row.value for row in rows if row.epochs == max(row.epochs for row in rows)]
    assert len(scores) == 3
    assert fmean(scores) == pytest.approx(learngene.metrics["val/acc"])  # of the front


def random_family(precision="32-true"):
    """A family of two sizes with random weights, in a trainer."""
    torch.manual_seed(0)
    whole = parse_architecture("depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=16", num_classes=3)
    method = Family(
        arch=whole.spec(), optimizer=partial(torch.optim.SGD, lr=1), ancestor="x", num_classes=3,
        sizes=["depth=1,embed_dim=8"], label_smoothing=0.1,
    ).eval()  # fmt: skip
    method.network = whole.build()
    method.network.register_buffer("layer_order", torch.arange(2.0))
    method.trainer = Trainer(precision=precision, logger=False, enable_checkpointing=False, accelerator="cpu")
    return method


@pytest.mark.parametrize("metric", ["acc", "balanced_acc"])  # with data.balanced
def test_the_fit_is_the_minimum_of_the_training_loss_with_its_penalty(monkeypatch, metric):
    method = random_family()
    whole, small = method.architecture, method.listed[0]
    targets = torch.tensor([0] * 24 + [1] * 12 + [2] * 4)
    groups = [HeadInputs(size, torch.randn(40, size.embed_dim).double(), targets) for size in (whole, small)]
    method.task = Task("x", 3, metric=metric)
    method.data_module = lambda: SimpleNamespace(class_counts=[24, 12, 4])
    monkeypatch.setattr("lgx.methods.nested.head._inputs", lambda _: iter(groups))
    start = {name: tensor.detach().double() for name, tensor in method.network.head.named_parameters()}
    fit_head(method)
    weight, bias = (tensor.detach().double().requires_grad_() for tensor in method.network.head.parameters())
    narrow = 2**0.5 * weight[:, :8]  # so that its outputs keep their scale
    loss = 0.005 * ((weight - start["weight"]).square().sum() + (bias - start["bias"]).square().sum())
    shares = torch.tensor([40 / (3 * 24), 40 / (3 * 12), 40 / (3 * 4)] if metric == "balanced_acc" else [1.0] * 3)
    for matrix, group in zip((weight, narrow), groups, strict=True):
        logits = group.vectors @ matrix.T + bias
        losses = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="none")
        loss = loss + (shares[targets] * losses).mean() / 2
    for gradient in torch.autograd.grad(loss, (weight, bias)):
        assert gradient.abs().max() < 1e-3
    assert not torch.allclose(weight, start["weight"], atol=1e-2)


def one_label(answers):
    """The answers of a network as labels, a quarter of them wrong; their loss in plain torch."""
    labels = answers.argmax(1)
    labels = torch.where(torch.arange(40) % 4 == 0, (labels + 1) % 3, labels)
    return labels, lambda logits: F.cross_entropy(logits, labels)


def several_labels(answers):
    """The same with several labels for each image, of which some are unknown."""
    labels = (answers > 0).long()
    labels[::4] = 1 - labels[::4]
    labels[::5, 0] = IGNORE
    known = labels != IGNORE
    return labels, lambda logits: F.binary_cross_entropy_with_logits(logits[known], labels[known].double())


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("labeled", [one_label, several_labels])
def test_a_head_is_divided_by_the_temperature_with_the_lowest_validation_loss_of_both_sizes(
    monkeypatch, labeled, precision
):
    monkeypatch.setattr(Trainer, "enable_validation", True)
    method = random_family(precision)
    head = method.network.head
    head.weight.data.mul_(30)  # too sure: a quarter of its answers are wrong
    head.bias.data.normal_()
    inputs = torch.randn(40, 3, 16, 16)
    before = [parameter.detach().clone() for parameter in head.parameters()]

    def logits(size):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
            return method.logits(size, inputs).double()

    targets, loss = labeled(logits(method.architecture))
    batches = [Batch(inputs[:30], targets[:30], "x"), Batch(inputs[30:], targets[30:], "x")]
    method.data_module = lambda: SimpleNamespace(val_dataloader=lambda: batches)
    losses = {step: fmean(float(loss(logits(size) * 20 / step)) for size in method.measured) for step in range(20, 101)}
    fit_temperature(method)
    best = min(losses, key=losses.__getitem__)  # of the temperatures 1 to 5
    assert 25 < best < 100
    for parameter, trained in zip(head.parameters(), before, strict=True):
        assert torch.allclose(parameter, trained * 20 / best)


def test_a_run_without_validation_images_ends_with_its_fitted_head(ancestor, images, tmp_path):
    checkpoints = run(images, tmp_path, ancestor, "--trainer.max_steps=1", "--data.val_fraction=0")
    weights = [
        load_checkpoint(checkpoints / name)["state_dict"]["network.head.weight"] for name in ("last.ckpt", FINAL)
    ]
    assert not torch.equal(*weights)


def test_no_more_images_are_read_than_the_run_has_trained_on(ancestor, images, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("lgx.methods.nested.head._by_width", lambda parts: seen.extend(parts) or _by_width(iter(seen)))
    run(images, tmp_path, ancestor, "--trainer.max_steps=1", "--trainer.limit_val_batches=0")
    assert sum(len(part.targets) for part in seen) == 3 * 16  # of 48; of 6 sizes, 3 read each image


def test_trained_sizes_have_a_lower_loss_on_training_images_after_the_fit(images, finished, tmp_path):
    fitted = Learngene.load(finished.parent / f"final{SUFFIX}")
    before = load_checkpoint(finished / "last.ckpt")["state_dict"]
    trained = {name: before[f"network.{name}"] for name in ("head.weight", "head.bias")}
    replace(fitted, tensors=fitted.tensors | trained).save(tmp_path / f"before{SUFFIX}")
    mean, std = (tuple(fitted.task[name]) for name in ("mean", "std"))
    data = ImageFolderData(root=str(images), img_size=16, batch_size=48, mean=mean, std=std)
    data.setup("fit")
    (batch,) = (data.on_after_batch_transfer(each, 0) for each in data.reference_dataloader(48))
    losses = []
    for file in (tmp_path / f"before{SUFFIX}", finished.parent / f"final{SUFFIX}"):
        networks = [load_family(file)[size].eval() for size in ("depth=2", "depth=1,embed_dim=8", "ancestor")]
        losses.append(fmean(float(F.cross_entropy(each(batch.inputs), batch.targets)) for each in networks))
    assert losses[1] < losses[0] - 0.01


def test_a_new_head_has_three_times_the_learning_rate_and_a_kept_one_has_not(ancestor, images, headless, tmp_path):
    for source, factors in ((ancestor / f"final{SUFFIX}", {1}), (headless, {1, 3})):
        arch = f"--model.arch={architecture_of(str(source)).spec()}"
        options = [arch, "--trainer.max_steps=1", "--trainer.limit_val_batches=0", "--model.optimizer.lr=1e-3"]
        checkpoints = run(images, tmp_path / str(len(factors)), source, *options)
        (optimizer,) = load_checkpoint(checkpoints / "last.ckpt")["optimizer_states"]
        rates = {round(group["initial_lr"] / 1e-3, 6) for group in optimizer["param_groups"]}
        assert rates == factors
