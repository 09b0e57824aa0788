"""Nested learngenes: order, slices, training, and what is refused."""

from functools import partial
from math import sqrt
from types import SimpleNamespace

import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from lgx.artifacts.learngene import SUFFIX, WHOLE, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.commands.api import init
from lgx.components.features import FeatureProjection, Features, feature_losses
from lgx.components.losses import distillation_loss
from lgx.core.batch import Batch
from lgx.errors import UserError
from lgx.methods import Nested
from lgx.methods.nested.sizes import KEYS
from lgx.methods.nested.slicing import for_slices, ordered, sliced, trained_share
from lgx.methods.weight_subcloning.importance import on_inputs
from tests.support.families import EACH, tiny

FAMILIES = ("plain", "deit_distilled", "dinov2_registers", "dinov3")
SIZES = {"depth": 5, "embed_dim": 64, "num_heads": 4, "mlp_ratio": 3.0, "num_classes": 7}


def ancestor(family, folder):
    """File of a network with random numbers, and its architecture."""
    architecture = tiny(family, **SIZES)
    torch.manual_seed(0)
    tensors = {name: 0.3 * torch.randn(tensor.shape) for name, tensor in architecture.build().state_dict().items()}
    path = folder / f"{family}{SUFFIX}"
    Learngene("ancestor", architecture, tensors, task={"name": "x", "mean": [0.5] * 3, "std": [0.5] * 3}).save(path)
    return path, architecture, tensors


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory):
    """What :func:`trained_method` gives, of some families."""
    return trained_method(request.param, tmp_path_factory.mktemp(request.param))


def trained_method(family, folder):
    """A method whose slices differ from its ancestor, the file of its learngene, and the ancestor's parameters."""
    path, architecture, tensors = ancestor(family, folder)
    method = Nested(
        arch=architecture.spec(), optimizer=partial(torch.optim.AdamW, lr=1e-3), num_classes=0, ancestor=str(path),
        least_depth=1,
    )  # fmt: skip
    method.network = method.architecture.build()
    method.network.load_state_dict({name: tensor + 0.01 for name, tensor in tensors.items()})
    method.network.whole = method.architecture.build()
    method.network.whole.load_state_dict(tensors)
    method.network.register_buffer("layer_order", torch.tensor([4.0, 0.0, 1.0, 3.0, 2.0]))
    method.network.projection = FeatureProjection(64, 64, 64)
    learngene = method.learngene(method.network.state_dict())
    learngene.save(folder / "nested.learngene.safetensors")
    for name, tensor in method.network.named_parameters():
        if not name.startswith((WHOLE, "projection.")):  # the file rounds what was trained
            tensor.data.copy_(learngene.tensors[name])
    return method.eval(), folder / "nested.learngene.safetensors", tensors


@pytest.mark.parametrize("family", EACH)
def test_the_ordered_network_computes_the_same(family, tmp_path):
    _, architecture, tensors = ancestor(family, tmp_path)
    model, images = architecture.build().eval(), torch.randn(4, 3, 16, 16)
    model.load_state_dict(tensors)
    wanted = model(images)
    importance = on_inputs(model, architecture, images)
    found, order = ordered(tensors, architecture, importance)
    model.load_state_dict(found)
    assert torch.allclose(model(images), wanted, rtol=1e-3, atol=1e-4)
    assert not torch.equal(order, torch.arange(64))
    again = on_inputs(model, architecture, images).elements
    assert all((a[:-1] >= a[1:] - 1e-6).all() for a in (again["embed", ""], again["hidden", "blocks.1.mlp"]))


@pytest.mark.parametrize("head", [8, 16])
def test_weights_of_slices_are_scaled_by_the_root_of_the_inputs_that_are_left(tmp_path, head):
    _, whole, tensors = ancestor("plain", tmp_path)  # 4 heads of 16, an MLP of 192
    width = 3 * head
    size = whole.replace(depth=1, embed_dim=width, num_heads=3, mlp_ratio=2.0)
    found = sliced(tensors, whole, size, [3, 1, 0, 2, 4], training=True)
    qkv = tensors["blocks.3.attn.qkv.weight"].reshape(3, 4, 16, 64)[:, :3, :head, :width].reshape(3 * width, width)
    joined = tensors["blocks.3.attn.proj.weight"].reshape(64, 4, 16)[:width, :3, :head].reshape(width, width)
    narrower, hidden = sqrt(64 / width), 2 * width
    for name, expected in {
        "blocks.0.attn.qkv.weight": qkv * narrower,
        "blocks.0.attn.proj.weight": joined * narrower,
        "blocks.0.mlp.fc1.weight": tensors["blocks.3.mlp.fc1.weight"][:hidden, :width] * narrower,
        "blocks.0.mlp.fc2.weight": tensors["blocks.3.mlp.fc2.weight"][:width, :hidden] * sqrt(192 / hidden),
        "blocks.0.mlp.fc2.bias": tensors["blocks.3.mlp.fc2.bias"][:width],
        "head.weight": tensors["head.weight"][:, :width] * narrower,
        "pos_embed": tensors["pos_embed"][..., :width],
        "patch_embed.proj.weight": tensors["patch_embed.proj.weight"][:width],
    }.items():
        torch.testing.assert_close(found[name], expected)
    share = 1 - sum(p.numel() for p in size.build("meta").parameters()) / sum(t.numel() for t in tensors.values())
    assert trained_share(whole, size) == pytest.approx(share)
    earlier = {f"{WHOLE}{name}": torch.zeros_like(tensor) for name, tensor in tensors.items()}
    torch.testing.assert_close(
        sliced(tensors | earlier, whole, size, [3])["norm.bias"], share * tensors["norm.bias"][:width]
    )


@settings(max_examples=8)
@given(data=st.data())
def test_a_slice_is_what_was_trained(trained, data):
    whole = trained[0].architecture
    heads = data.draw(st.integers(1, 4))
    within = 16 if whole.has_rotary_positions else data.draw(st.sampled_from([4, 8, 12, 16]))
    size = whole.replace(
        depth=data.draw(st.integers(1, 5)), embed_dim=heads * within, num_heads=heads,
        mlp_ratio=data.draw(st.sampled_from([0.5, 1.0, 2.25, 3.0])),
    )  # fmt: skip
    assert_slice_in_plain_timm(trained, size)


@pytest.mark.parametrize("family", EACH)
def test_slices_of_every_family_are_what_was_trained_and_learn_after_a_validation(family, tmp_path):
    method, *_ = trained = trained_method(family, tmp_path)
    size = method.architecture.replace(depth=2, embed_dim=48, num_heads=3, mlp_ratio=1.5)
    with torch.inference_mode():
        method.outputs(size, torch.randn(1, 3, 16, 16))
    assert_slice_in_plain_timm(trained, size)
    method.outputs(size, torch.randn(1, 3, 16, 16))[1].square().sum().backward()
    assert method.network.get_parameter("blocks.4.attn.proj.weight").grad.any()


def assert_slice_in_plain_timm(trained, size):
    method, file, _ = trained
    images = torch.randn(2, 3, 16, 16)
    start = init(source=file, arch=size.spec(), method="nested").eval()
    model = timm.create_model(size.timm_name, pretrained=False, **size.timm_args()).eval()
    model.load_state_dict(start.state_dict())
    assert torch.allclose(model(images), method.outputs(size, images)[1], rtol=1e-4, atol=1e-5)


def test_the_ancestors_own_size_is_the_ancestor(trained):
    method, file, tensors = trained
    start = init(source=file, arch=method.architecture.spec(), method="nested")
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in start.state_dict().items())
    assert torch.equal(load_pretrained(str(file)).tensors["norm.weight"], tensors["norm.weight"])
    assert load_file(file)["norm.weight"].dtype == torch.float16
    stored = Learngene.load(file).tensors
    assert sum(name.startswith(WHOLE) for name in stored) == len(tensors) == len(stored) // 2


def test_a_budget_gives_a_narrower_network_rather_than_few_whole_layers(trained):
    method, file, _ = trained
    budget = method.architecture.replace(depth=2).count_parameters() + 100
    start = init(source=file, params=budget, method="nested")
    assert len(start.blocks) > 2
    assert start.embed_dim < method.architecture.embed_dim


def distance(file, tensors, size):
    """How far a slice's last norm is from the ancestor's."""
    found = init(source=file, arch=size.spec(), method="nested").state_dict()["norm.weight"]
    return float((found - tensors["norm.weight"][: len(found)]).abs().mean())


def test_whole_layers_are_trained_like_all_slices_and_keep_more_of_the_ancestor_afterwards(trained):
    method, file, tensors = trained
    size, images = method.architecture.replace(depth=1), torch.randn(2, 3, 16, 16)
    share = 1 - size.count_parameters() / method.architecture.count_parameters()
    assert share > 0.5
    assert distance(file, tensors, size) == pytest.approx(0.25 * 0.01, rel=1e-3)
    method.train()
    own = {name: tensor - (1 - share) * 0.01 for name, tensor in method.network.state_dict().items()}
    trained_alone = size.build()
    names = {name: name.replace("blocks.0.", "blocks.4.") for name in trained_alone.state_dict()}
    trained_alone.load_state_dict({name: own[source] for name, source in names.items()})
    in_training = method.outputs(size, images)[1]
    assert torch.allclose(in_training, trained_alone(images), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(in_training, method.eval().outputs(size, images)[1], rtol=1e-3, atol=1e-4)


def test_a_size_that_a_step_has_twice_counts_twice(trained):
    method, _, _ = trained
    size, images = method.size(2, 48, 0.5), torch.randn(2, 3, 16, 16)
    parameters = [p for name, p in method.network.named_parameters() if not name.startswith(WHOLE)]

    def gradients(count):
        total = sum(method.logits(size, images).square().sum() for _ in range(count))
        return torch.autograd.grad(total, parameters, allow_unused=True)

    pairs = [*zip(gradients(1), gradients(2), strict=True)]
    assert 0 < sum(once is None for once, _ in pairs) < len(pairs)  # of the layers that the slice lacks
    assert all(torch.equal(2 * once, twice) for once, twice in pairs if once is not None)
    assert all(twice is None for once, twice in pairs if once is None)


def test_the_gradients_of_all_slices_of_a_step_are_added(trained):
    method, _, _ = trained
    sizes, images = [*method.draw(3, 1), method.size(2, 48, 0.5)], torch.randn(2, 3, 16, 16)
    parameters = [p for name, p in method.network.named_parameters() if not name.startswith(WHOLE)]

    def gradients(of_slices):
        outputs = [method.outputs(size, images, None, of)[1] for size, of in zip(sizes, of_slices, strict=True)]
        return torch.autograd.grad(sum(logits.square().sum() for logits in outputs), parameters, allow_unused=True)

    found = gradients(for_slices(method.parameters_by_name, len(sizes)))
    wanted = gradients([None] * len(sizes))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_compiled_slices_compute_the_same(trained):
    method, _, _ = trained
    images, sizes = torch.randn(2, 3, 16, 16), method.draw(3, 1)
    wanted = [method.outputs(size, images)[1] for size in sizes]
    method.compile_network = True
    try:
        found = [method.outputs(size, images)[1] for size in sizes]
    finally:
        method.compile_network = False
    assert all(torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4) for ours, theirs in zip(found, wanted, strict=True))


def test_all_processes_and_resumed_runs_draw_the_same_sizes(trained):
    method, _, _ = trained
    assert method.draw(0, 1, 2) == method.draw(0, 1, 2)
    drawn = [size for batch in range(200) for size in method.draw(0, 1, batch)]
    assert {size.depth for size in drawn} == {1, 2, 3, 4, 5}
    assert {size.embed_dim for size in drawn} == {16, 32, 48, 64}
    assert {size.mlp_ratio for size in drawn} == {3.0 * share for share in (0.5, 0.75, 1.0)}  # from half the ancestor's
    method = Nested(arch="depth=12,embed_dim=192,num_heads=3,img_size=16,patch_size=4", optimizer=None, ancestor="a")
    method.task_architecture = method.parsed_architecture
    assert [(size.depth, size.embed_dim) for size in method.measured] == [(6, 192), (3, 192), (6, 128), (3, 64)]


def test_the_loss_of_a_slice_is_that_of_its_features_and_of_the_ancestors_predictions():
    method = Nested(arch="depth=3,embed_dim=8,num_heads=1", optimizer=None, ancestor="a", num_classes=0)
    method.task_architecture = method.parsed_architecture.replace(num_classes=3)
    one, other = (Features(torch.randn(2, 8), torch.randn(2, 8, 2, 2)) for _ in range(2))
    logits, answers = torch.randn(2, 2, 3)
    found = method._losses(one, logits, other, answers, Batch(torch.zeros(2), torch.zeros(2), "x"))["loss"]
    wanted = feature_losses(one, other)[0].mean() + distillation_loss(logits, answers, method.temperature)
    torch.testing.assert_close(found, wanted)
    method.network = torch.nn.Linear(1, 1)
    method._teacher_of = lambda batch: SimpleNamespace(features_and_logits=lambda *_: (other, answers))
    method.drawn, method.outputs = [1.0, 3.0], lambda size, *_: (one, logits * size)
    losses = [method._losses(one, logits * size, other, answers, Batch(None, torch.zeros(2), "x")) for size in (1, 3)]
    averages = method.training_losses(Batch(None, torch.zeros(2), "x"))
    torch.testing.assert_close(averages["loss"], (losses[0]["loss"] + losses[1]["loss"]) / 2)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("vit_dlittle_patch16_reg1_gap_256", "differential attention, which cannot be sliced"),
        ("eva02_base_patch14_224", "heads of 16 dimensions; write embed_dim=32,num_heads=2"),
    ],
)
def test_heads_that_cannot_be_cut_are_refused(form, words):
    whole = tiny("plain", **SIZES, form=form)
    with pytest.raises(UserError, match=words):
        sliced({}, whole, whole.replace(embed_dim=32), range(5))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depth": 6}, "6 layers, but the learngene has 5"),
        ({"embed_dim": 80, "num_heads": 4}, "80 dimensions"),
        ({"embed_dim": 64, "num_heads": 2}, "must not have more heads or wider ones"),
        ({"mlp_ratio": 4.0}, "neurons in an MLP"),
    ],
)
def test_sizes_beyond_the_learngene_are_refused(trained, changes, words):
    method, file, _ = trained
    with pytest.raises(UserError, match=words):
        init(source=file, arch=method.architecture.replace(**changes).spec(KEYS), method="nested")
