"""Factored execution is exact: value, gradient, norm, for any architecture."""

import pytest
import torch
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture, sample_architectures
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.lowrank import LowRankTensor, execute, frobenius_norm

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


@pytest.mark.parametrize("layout", ["official", "residual"])
def test_a_network_on_factors_equals_the_dense_one(layout):
    torch.manual_seed(0)
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7, layout=layout)).double()
    images = torch.randn(3, 3, 16, 16, dtype=torch.double)
    results = []
    for dense in (True, False):
        hypernet.zero_grad()
        parameters = hypernet.predict(VIT, dense=dense)
        assert any(isinstance(p, LowRankTensor) for p in parameters.values()) is not dense
        logits = execute(VIT, parameters, images)
        (logits.square().sum() + sum(frobenius_norm(p).double() for p in parameters.values())).backward()
        results.append([logits.detach(), *(p.grad for p in hypernet.parameters() if p.grad is not None)])
    for factored, dense in zip(*results, strict=True):
        # The norms are taken in float32.
        torch.testing.assert_close(factored, dense, rtol=1e-5, atol=1e-5)


def test_dense_predictions_load_into_timms_model():
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7)).eval()
    with torch.no_grad():
        parameters = hypernet.predict(VIT)
        model = VIT.build().eval()
        model.load_state_dict(parameters)
        images = torch.randn(2, 3, 16, 16)
        torch.testing.assert_close(model(images), execute(VIT, parameters, images))


def test_factored_execution_works_under_autocast():
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7))
    images = torch.randn(2, 3, 16, 16)
    with torch.autocast("cpu", torch.bfloat16):
        logits = execute(VIT, hypernet.predict(VIT, dense=False), images)
    exact = execute(VIT, hypernet.predict(VIT), images)
    torch.testing.assert_close(logits.float(), exact, rtol=0.1, atol=0.05)
    logits.float().sum().backward()


@pytest.mark.parametrize(("decoder", "count"), [("conv", 10), ("low_rank", 100)])
def test_random_architectures_of_both_sets_are_predicted_finite_and_alike(decoder, count):
    torch.manual_seed(0)
    small = ViTArchitecture(img_size=16, patch_size=4, num_classes=7)
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7, decoder=decoder)).eval()
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
