"""A low-rank tensor and a factored layer behave like the dense matrix: values, gradients and norms."""

import pytest
import torch
from torch.nn import functional as F

from lgx.hypernet import Hypernet, HypernetConfig, low_rank_tensor
from lgx.hypernet.low_rank_tensor import LowRankTensor, dense_is_faster, factored_linear, frobenius_norm, sum_of_norms
from tests.support.hypernet import TINY, VIT


@pytest.mark.parametrize(
    "function",
    [lambda w: w.sum(), lambda w: (w * 2).mean(), lambda w: torch.cat([w, w]).norm(), lambda w: w[1:, :2].exp().sum()],
    ids=["sum", "mul", "cat", "slice"],
)
def test_other_functions_receive_the_dense_matrix_with_its_gradient(pair, function):
    a, b = pair
    found, expected = function(LowRankTensor(a, b)), function(a @ b)
    torch.testing.assert_close(found, expected)
    for x, y in zip(torch.autograd.grad(found, pair), torch.autograd.grad(expected, pair), strict=True):
        torch.testing.assert_close(x, y)


def test_methods_and_operators_give_the_values_of_the_dense_matrix(pair):
    weight, dense = LowRankTensor(*pair), pair[0] @ pair[1]
    torch.testing.assert_close(weight.T, dense.T)
    torch.testing.assert_close(weight.norm(), dense.norm())
    x = torch.randn(2, 4, dtype=torch.double)
    torch.testing.assert_close(x @ weight.mT, x @ dense.mT)
    torch.testing.assert_close(F.linear(input=x, weight=weight), x @ dense.T)


def test_a_norm_computed_without_gradient_has_one_later():
    weight = Hypernet(HypernetConfig(**TINY)).predict(VIT, dense=False)["blocks.0.mlp.fc1.weight"]
    with torch.no_grad():
        seen = frobenius_norm(weight)
    assert not seen.requires_grad
    assert frobenius_norm(weight).requires_grad
    assert frobenius_norm(weight) == seen


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


def test_the_norm_of_a_zero_weight_has_a_finite_gradient():
    a, b = torch.zeros(3, 2, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    LowRankTensor(a, b).frobenius_norm().backward()
    assert a.grad.count_nonzero() == b.grad.count_nonzero() == 0


def test_the_sum_of_norms_is_that_of_each_parameter_alone(pair):
    vectors = [torch.randn(n, dtype=torch.double, requires_grad=True) for n in (5, 3, 5, 5)]
    zero, table = torch.zeros(3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    total = sum_of_norms([*vectors, zero, table, LowRankTensor(*pair)])
    expected = sum(vector.norm() for vector in vectors) + table.norm() + (pair[0] @ pair[1]).norm()
    torch.testing.assert_close(total, expected)
    sources = (*vectors, table, *pair)
    seen, wanted = (torch.autograd.grad(each, sources, retain_graph=True) for each in (total, expected))
    torch.testing.assert_close(seen, wanted)
    assert torch.autograd.grad(total, zero)[0].count_nonzero() == 0


@pytest.mark.parametrize("rank", [14, 16])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize(
    ("n", "dtype"),
    [(6, torch.double), (6, torch.float), (40_002, torch.float), (3 * 13_331, torch.float)],
    ids=["double", "small", "59 images", "3 images"],
)
def test_all_sizes_ranks_and_types_equal_the_dense_layer(n, dtype, biased, rank):
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
def test_inputs_may_have_any_shape(pair, shape):
    a, b = pair
    x = torch.randn(shape, dtype=torch.double)
    torch.testing.assert_close(F.linear(x, LowRankTensor(a, b)), F.linear(x, a @ b))


def test_autocast_computes_in_low_precision(pair):
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


@pytest.mark.parametrize(("rank", "calls"), [(24, 0), (4, 1)], ids=["near the size", "far below"])
def test_a_layer_whose_rank_is_near_its_size_is_computed_with_the_product(monkeypatch, rank, calls):
    used = []
    monkeypatch.setattr(low_rank_tensor, "factored_linear", lambda *args: used.append(args) or factored_linear(*args))
    a = torch.randn(32, rank, dtype=torch.double, requires_grad=True)
    b = torch.randn(rank, 32, dtype=torch.double, requires_grad=True)
    x, bias = torch.randn(200, 32, dtype=torch.double), torch.randn(32, dtype=torch.double)
    for weight in (LowRankTensor(a, b), a @ b):
        y = F.linear(x, weight, bias)
        gradients = torch.autograd.grad(y.square().sum(), (a, b))
        expected = torch.autograd.grad(F.linear(x, a @ b, bias).square().sum(), (a, b))
        for found, wanted in zip(gradients, expected, strict=True):
            torch.testing.assert_close(found, wanted)
    transposed = torch.addmm(bias, x, LowRankTensor(a, b))
    torch.testing.assert_close(transposed, torch.addmm(bias, x, a @ b))
    assert len(used) == 2 * calls


def test_few_rows_do_not_pay_for_the_product():
    assert not dense_is_faster(1, 192, 192, 90)
    assert dense_is_faster(4096, 64, 64, 64)
    assert not dense_is_faster(4096, 768, 768, 90)
