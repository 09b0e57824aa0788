"""A low-rank tensor behaves like the dense matrix: values, gradients and norms."""

import pytest
import torch
from torch.nn import functional as F

from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.low_rank_tensor import LowRankTensor, frobenius_norm
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


def test_the_norm_from_the_factors_equals_the_dense_norm(pair):
    a, b = pair
    torch.testing.assert_close(LowRankTensor(a, b).frobenius_norm(), (a @ b).norm())
    assert LowRankTensor(a, b).shape == (6, 4)
    assert frobenius_norm(torch.ones(4)) == 2


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
