"""Factored execution is exact: value, gradient, norm, for any architecture."""

from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture, sample_architectures
from lgx.benchmark.timing import peak_mb
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.functional_forward import functional_forward
from lgx.hypernet.low_rank_tensor import LowRankTensor, frobenius_norm
from lgx.hypernet.meta_batch import meta_batch_loss
from lgx.hypernet.sliced_linear import OutputSlice, sliced_linear
from tests.support.command_line import DEVICES

TINY = {"width": 16, "layers": 2, "heads": 4, "max_shape": (48, 48, 4, 4), "rank": 5, "max_size": 256}
VIT = ViTArchitecture(2, 24, 3, patch_size=4, img_size=16, num_classes=7)


@pytest.fixture
def pair():
    torch.manual_seed(0)
    return torch.randn(6, 3, dtype=torch.double, requires_grad=True), torch.randn(
        3, 4, dtype=torch.double, requires_grad=True
    )


def test_linear_equals_the_dense_product_in_value_and_gradient(pair):
    a, b = pair
    x, bias = torch.randn(2, 5, 4, dtype=torch.double), torch.randn(6, dtype=torch.double)
    results = []
    for weight in (LowRankTensor(a, b), a @ b):
        y = F.linear(x, weight, bias)
        results.append((y, *torch.autograd.grad(y.square().sum(), (a, b))))
    for factored, dense in zip(*results, strict=True):
        torch.testing.assert_close(factored, dense)


@pytest.mark.parametrize("rank", [14, 16])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize(
    ("n", "dtype"),
    [(6, torch.double), (6, torch.float), (40_002, torch.float), (3 * 13_331, torch.float)],
    ids=["double", "small", "59 images", "3 images"],
)
def test_a_factored_layer_has_the_values_and_gradients_of_the_dense_one(n, dtype, biased, rank):
    torch.manual_seed(0)
    a = torch.randn(64, rank, dtype=dtype, requires_grad=True)
    b = torch.randn(96, rank, dtype=dtype, requires_grad=True)
    x = torch.randn(n // 3, 3, 96, dtype=dtype, requires_grad=True)
    bias = torch.randn(64, dtype=dtype, requires_grad=True) if biased else None
    sources = [tensor for tensor in (x, a, b, bias) if tensor is not None]
    weights = torch.randn(n // 3, 3, 64, dtype=dtype)
    results = []
    for weight in (LowRankTensor(a, b.T), a @ b.T):
        y = F.linear(x, weight, bias)
        results.append((y, *torch.autograd.grad((y * weights).sum(), sources)))
    for factored, dense in zip(*results, strict=True):
        torch.testing.assert_close(factored, dense, rtol=1e-4, atol=1e-2 if dtype == torch.float else 1e-9)


@pytest.mark.parametrize("shape", [(4,), (0, 4), (2, 3, 4)], ids=["vector", "empty", "batch"])
def test_a_factored_layer_takes_inputs_of_any_shape(pair, shape):
    a, b = pair
    x = torch.randn(shape, dtype=torch.double)
    torch.testing.assert_close(F.linear(x, LowRankTensor(a, b)), F.linear(x, a @ b))


def test_a_factored_layer_under_autocast_is_the_dense_one_in_low_precision(pair):
    a, b = (factor.detach().float().requires_grad_() for factor in pair)
    x, bias = torch.randn(5, 4), torch.randn(6, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = F.linear(x, LowRankTensor(a, b), bias)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), F.linear(x, a @ b, bias), rtol=0.05, atol=0.1)
    y.float().sum().backward()
    torch.testing.assert_close(bias.grad, torch.full((6,), 5.0))
    torch.testing.assert_close(a.grad, (x @ b.T).sum(0).expand(6, 3).detach(), rtol=0.05, atol=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        assert F.linear(x.double(), LowRankTensor(*pair), bias.double()).dtype == torch.double


@pytest.mark.parametrize(
    "function",
    [lambda w: w.sum(), lambda w: (w * 2).mean(), lambda w: torch.cat([w, w]).norm(), lambda w: w[1:, :2].exp().sum()],
    ids=["sum", "mul", "cat", "slice"],
)
def test_any_other_function_gets_the_dense_matrix_with_its_gradient(pair, function):
    a, b = pair
    found, expected = function(LowRankTensor(a, b)), function(a @ b)
    torch.testing.assert_close(found, expected)
    for x, y in zip(torch.autograd.grad(found, pair), torch.autograd.grad(expected, pair), strict=True):
        torch.testing.assert_close(x, y)


def test_norm_from_the_factors_is_the_dense_norm(pair):
    a, b = pair
    torch.testing.assert_close(LowRankTensor(a, b).frobenius_norm(), (a @ b).norm())
    assert LowRankTensor(a, b).shape == (6, 4)
    assert frobenius_norm(torch.ones(4)) == 2


def test_a_norm_that_was_looked_at_keeps_its_gradient():
    weight = Hypernet(HypernetConfig(**TINY)).predict(VIT, dense=False)["blocks.0.mlp.fc1.weight"]
    with torch.no_grad():
        seen = frobenius_norm(weight)
    assert not seen.requires_grad
    assert frobenius_norm(weight).requires_grad
    assert frobenius_norm(weight) == seen


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", ["official", "residual", "aligned"])
def test_a_network_on_factors_equals_the_dense_one(layout, device):
    torch.manual_seed(0)
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7, layout=layout)).to(device, torch.double)
    images = torch.randn(3, 3, 16, 16, dtype=torch.double, device=device)
    results = []
    for dense in (True, False):
        hypernet.zero_grad()
        parameters = hypernet.predict(VIT, dense=dense)
        assert any(isinstance(p, LowRankTensor) for p in parameters.values()) is not dense
        logits = functional_forward(VIT, parameters, images)
        (logits.square().sum() + sum(frobenius_norm(p).double() for p in parameters.values())).backward()
        results.append([logits.detach(), *(p.grad for p in hypernet.parameters() if p.grad is not None)])
    for factored, dense in zip(*results, strict=True):
        # The norms are taken in float32.
        torch.testing.assert_close(factored, dense, rtol=1e-5, atol=1e-5)


def test_aligned_rows_mean_the_same_at_every_width():
    torch.manual_seed(0)
    narrow, wide = (ViTArchitecture(1, width, 2, patch_size=4, img_size=16, num_classes=7) for width in (16, 24))
    queries_keys_values = {}
    for layout in ("residual", "aligned"):
        hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7, layout=layout))
        with torch.no_grad():
            for parameter in hypernet.decoder.fc3.parameters():
                parameter.zero_()  # all that is left of a prediction is the bases
            weights = [hypernet.predict(vit)["blocks.0.attn.qkv.weight"] for vit in (narrow, wide)]
        scaled = [w.unflatten(0, (3, -1)) * w.shape[1] ** 0.5 for w in weights]
        queries_keys_values[layout] = scaled[0], scaled[1][:, :16, :16]
    torch.testing.assert_close(*queries_keys_values["aligned"])
    assert not torch.allclose(*queries_keys_values["residual"])


def test_dense_predictions_load_into_timms_model():
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7)).eval()
    with torch.no_grad():
        parameters = hypernet.predict(VIT)
        model = VIT.build().eval()
        model.load_state_dict(parameters)
        images = torch.randn(2, 3, 16, 16)
        torch.testing.assert_close(model(images), functional_forward(VIT, parameters, images))


@pytest.mark.parametrize(
    "architecture",
    [VIT, VIT.replace(depth=1), VIT.replace(depth=3, stages=(1, 2)), VIT.replace(kind="segmentation")],
    ids=["two-layers", "one-layer", "stages", "segmentation"],
)
def test_execution_has_the_values_and_gradients_of_timms_model(architecture):
    torch.manual_seed(0)
    model = architecture.build().double()
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    images = torch.randn(2, 3, 16, 16, dtype=torch.double)
    results = []
    for logits in (model(images), functional_forward(architecture, dict(model.named_parameters()), images)):
        results.append((logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_execution_under_autocast_is_the_exact_one_in_low_precision(dtype, device):
    torch.manual_seed(0)
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7)).to(device)
    images = torch.randn(2, 3, 16, 16).to(device)
    results = []
    for low, dense in ((True, False), (False, True)):
        with torch.autocast(device, dtype, enabled=low):
            logits = functional_forward(VIT, hypernet.predict(VIT, dense=dense), images).float()
        gradients = torch.autograd.grad(logits.square().sum(), list(hypernet.parameters()), materialize_grads=True)
        results.append((logits, torch.cat([gradient.flatten() for gradient in gradients])))
    (logits, gradient), (exact, exact_gradient) = results
    torch.testing.assert_close(logits, exact, rtol=0.1, atol=0.05)
    assert F.cosine_similarity(gradient, exact_gradient, dim=0) > 0.99


@pytest.mark.parametrize(
    ("decoder", "layout", "count"),
    [
        ("conv", "official", 5),
        pytest.param("conv", "official", 10, marks=pytest.mark.slow),
        ("low_rank", "official", 10),
        pytest.param("low_rank", "official", 100, marks=pytest.mark.slow),
        ("low_rank", "residual", 5),
        pytest.param("low_rank", "residual", 20, marks=pytest.mark.slow),
        ("low_rank", "aligned", 5),
        pytest.param("low_rank", "aligned", 10, marks=pytest.mark.slow),
    ],
)
def test_random_architectures_of_both_sets_are_predicted_finite_and_alike(decoder, layout, count):
    torch.manual_seed(0)
    small = ViTArchitecture(img_size=16, patch_size=4, num_classes=7)
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7, decoder=decoder, layout=layout)).eval()
    drawn = [a for name in ("ViTs-1K", "ViTs+-1K") for a in sample_architectures(name, count, seed=7, base=small)]
    with torch.no_grad():
        for architecture in dict.fromkeys(drawn):
            expected = {k: v.shape for k, v in architecture.build("meta").state_dict().items()}
            dense, factored = hypernet.predict(architecture), hypernet.predict(architecture, dense=False)
            assert {k: v.shape for k, v in dense.items()} == expected
            for name, tensor in dense.items():
                assert tensor.isfinite().all(), name
                other = factored[name]
                other = other.to_dense() if isinstance(other, LowRankTensor) else other
                torch.testing.assert_close(tensor, other, rtol=1e-4, atol=1e-6)


def test_task_embeddings_are_checked_and_an_untuned_film_changes_nothing():
    torch.manual_seed(0)
    plain = Hypernet(HypernetConfig(**TINY, num_classes=7)).eval()
    aware = Hypernet(HypernetConfig(**TINY, num_classes=7, task_width=3)).eval()
    aware.load_state_dict(plain.state_dict(), strict=False)
    with torch.no_grad():
        expected, found = plain.predict(VIT), aware.predict(VIT, torch.randn(3))
    assert all(torch.equal(expected[name], tensor) for name, tensor in found.items())
    for hypernet, task in ((plain, torch.zeros(3)), (aware, None), (aware, torch.zeros(4))):
        with pytest.raises(UserError, match="task embedding"):
            hypernet.predict(VIT, task)


def test_weights_beyond_the_factors_are_refused():
    hypernet = Hypernet(HypernetConfig(**{**TINY, "max_size": 64}, num_classes=7))
    with pytest.raises(UserError, match="exceeds max_size 64"):
        hypernet.predict(VIT)


@given(
    out=st.integers(1, 40),
    spans=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 90)), min_size=1, max_size=5),
    least=st.integers(1, 50),
)
@settings(max_examples=80)
def test_parts_are_what_the_whole_map_would_give(out, spans, least):
    torch.manual_seed(out)
    layer = nn.Linear(3, out).double()
    inputs = [
        torch.randn(n, -(-(start + count) // out), 3).double().requires_grad_()
        for n, (start, count) in enumerate(spans, start=1)
    ]
    wanted = [(x, start, start + count) for x, (start, count) in zip(inputs, spans, strict=True)]
    wanted += [(inputs[0], 0, 1)] * 2  # one input for several parts, and a part that nobody uses
    whole = [layer(x).flatten(1)[:, start:stop] for x, start, stop in wanted]
    with mock.patch("lgx.hypernet.sliced_linear.MIN_BLOCK_SIZE", least):
        read = sliced_linear(layer, [OutputSlice(*part) for part in wanted])
    torch.testing.assert_close(read, whole)
    sources = (layer.weight, layer.bias, *inputs)
    torch.testing.assert_close(
        *(torch.autograd.grad(sum(out.sin().sum() for out in outs[:-1]), sources) for outs in (read, whole))
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_norms_are_float32_under_autocast(dtype):
    a, b = 100 * torch.randn(300, 16), torch.randn(16, 200)
    a.requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        norm = frobenius_norm(LowRankTensor(a, b))
    assert norm.dtype == torch.float32
    torch.testing.assert_close(norm, (a @ b).norm())
    (gradient,) = torch.autograd.grad(norm, a)
    torch.testing.assert_close(gradient, torch.autograd.grad((a @ b).norm(), a)[0])


def test_a_factored_weight_answers_like_the_dense_one(pair):
    weight, dense = LowRankTensor(*pair), pair[0] @ pair[1]
    torch.testing.assert_close(weight.T, dense.T)
    torch.testing.assert_close(weight.norm(), dense.norm())
    x = torch.randn(2, 4, dtype=torch.double)
    torch.testing.assert_close(x @ weight.mT, x @ dense.mT)
    torch.testing.assert_close(F.linear(input=x, weight=weight), x @ dense.T)


def test_meta_losses_are_means_over_the_architectures():
    torch.manual_seed(0)
    hypernet, images = Hypernet(HypernetConfig(**TINY)).double(), torch.randn(3, 3, 16, 16).double()
    both = [VIT, VIT.replace(depth=3, embed_dim=60, num_heads=4)]

    def losses(architectures):
        return torch.stack(meta_batch_loss(hypernet, architectures, images, lambda logits: logits.square().mean()))

    torch.testing.assert_close(losses(both), (losses(both[:1]) + losses(both[1:])) / 2)


def test_the_norm_of_a_zero_weight_has_a_finite_gradient():
    a, b = torch.zeros(3, 2, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    LowRankTensor(a, b).frobenius_norm().backward()
    assert a.grad.count_nonzero() == b.grad.count_nonzero() == 0


def test_a_training_step_takes_less_memory_than_the_dense_weights_alone():
    wide = ViTArchitecture(2, 1024, 8, patch_size=16, img_size=32, num_classes=10)
    dense = 4 * wide.count_parameters() / 2**20
    peaks = {}
    for form in (False, True):
        hypernet = Hypernet(HypernetConfig(width=16, layers=1, heads=2, rank=4, num_classes=10))

        def step(hypernet=hypernet, form=form):
            parameters = hypernet.predict(wide, dense=form)
            norms = torch.stack([frobenius_norm(p) for p in parameters.values()]).sum()
            (functional_forward(wide, parameters, torch.randn(2, 3, 32, 32)).square().sum() + norms).backward()
            hypernet.zero_grad()

        step()
        peaks[form] = peak_mb(step)
    assert peaks[False] < 0.5 * dense < dense < peaks[True]


def test_class_tokens_position_is_zero_unless_the_official_noise_is_asked_for():
    hypernet = Hypernet(HypernetConfig(**TINY))
    first, second = hypernet.predict(VIT), hypernet.predict(VIT)
    assert first["pos_embed"][0, 0].count_nonzero() == 0
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    noisy = Hypernet(HypernetConfig(**TINY, class_position_std=0.02))
    rows = torch.stack([noisy.predict(VIT)["pos_embed"][0, 0] for _ in range(50)])
    assert 0.018 < rows.std() < 0.022


@pytest.mark.parametrize("largest", [8, 48])
def test_ghn3_repeats_its_head_beyond_the_classes_that_it_learned(largest):
    hypernet = Hypernet(HypernetConfig(**{**TINY, "max_shape": (largest, 48, 4, 4)}, num_classes=12, decoder="conv"))
    with torch.no_grad():
        exact, more = (hypernet.predict(VIT.replace(num_classes=classes)) for classes in (12, 30))
    for name in ("head.weight", "head.bias"):
        assert len(exact[name].unique(dim=0)) == 12
        torch.testing.assert_close(more[name], more[name][:12].repeat(3, *[1] * (more[name].ndim - 1))[:30])
        assert len(more[name].unique(dim=0)) == 12


def test_deviations_that_are_no_number_are_refused():
    for value in (float("nan"), float("inf"), True, -1):
        with pytest.raises(UserError, match="class_position_std"):
            HypernetConfig(class_position_std=value)


def test_any_number_of_classes_from_one():
    hypernet = Hypernet(HypernetConfig(**TINY))
    for classes in (1, 2, 100):
        architecture = VIT.replace(num_classes=classes)
        parameters = hypernet.predict(architecture, dense=False)
        logits = functional_forward(architecture, parameters, torch.randn(2, 3, 16, 16))
        assert logits.shape == (2, classes)
    with pytest.raises(UserError, match="no class head"):
        hypernet.predict(VIT.replace(num_classes=0))
