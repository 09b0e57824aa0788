"""A low-rank tensor and a factored layer behave like the dense matrix: values, gradients and norms."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lgx.hypernet.decoder import Factors
from lgx.hypernet.low_rank_tensor import LowRankTensor, dense_is_faster
from lgx.hypernet.predicted import Joined, Predicted


@pytest.fixture
def pair() -> tuple[Tensor, Tensor]:
    """Two factors, (6, 3) and (3, 4), in double precision."""
    torch.manual_seed(0)
    shapes = (6, 3), (3, 4)
    return tuple(torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes)


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w.sum(), lambda w: (w * 2).mean(), lambda w: torch.cat([w, w]).norm(),
        lambda w: w[1:, :2].exp().sum(), lambda w: w.norm(), lambda w: (torch.eye(4).double() @ w.mT).exp().sum(),
        lambda w: F.linear(input=torch.eye(4).double(), weight=w).exp().sum(),
    ],
    ids=["sum", "mul", "cat", "slice", "norm", "transposed", "linear"],
)  # fmt: skip
def test_other_functions_receive_the_dense_matrix_with_its_gradient(pair, function):
    a, b = pair
    found, expected = function(LowRankTensor(a, b)), function(a @ b)
    torch.testing.assert_close(found, expected)
    for x, y in zip(torch.autograd.grad(found, pair), torch.autograd.grad(expected, pair), strict=True):
        torch.testing.assert_close(x, y)


def predicted(products, dense=(), vectors=()):
    """Predicted parameters: factors A (n, out, r) and B (n, in, r), tensors (n, ...), and vectors (n, size)."""

    def named(kind, tensors):
        return [([(0, f"{kind}.{i}.{j}") for j in range(len(t))], t) for i, t in enumerate(tensors)]

    names = [names for names, _ in named("p", [a for a, _ in products])]
    products = [(each, Factors(*pair, (1, 1))) for each, pair in zip(names, products, strict=True)]
    return Predicted(named("d", dense), products, Joined(named("v", vectors)))


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16, torch.float16])
def test_the_sum_of_norms_is_that_of_the_products_and_its_precision_float32(dtype):
    shapes = (3, 300, 16), (3, 200, 16), (2, 200, 16), (2, 40, 16), (2, 5, 4), (3, 7), (1, 2)
    tensors = [(100 * torch.randn(shape)).requires_grad_() for shape in shapes]
    a, b, c, d, dense, *vectors = tensors
    with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float):
        total = predicted([(a, b), (c, d)], [dense], vectors).sum_of_norms()
    expected = sum(t.flatten(1).norm(dim=1).sum() for t in (a @ b.mT, c @ d.mT, dense, *vectors))
    assert total.dtype == torch.float32
    torch.testing.assert_close(total, expected)
    for found, wanted in zip(torch.autograd.grad(total, tensors), torch.autograd.grad(expected, tensors), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-3)


def test_the_norm_of_a_zero_weight_has_a_finite_gradient():
    a, b, zeros = torch.zeros(1, 3, 2), torch.randn(1, 3, 2), torch.zeros(1, 4)
    tensors = [t.requires_grad_() for t in (a, b, zeros)]
    predicted([(a, b)], vectors=[zeros]).sum_of_norms().backward()
    assert all(t.grad.count_nonzero() == 0 for t in tensors)


@pytest.mark.parametrize("rank", [14, 16])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=["vector", "empty", "batch"])
@pytest.mark.parametrize("dtype", [torch.double, torch.float])
def test_all_shapes_ranks_and_types_equal_the_dense_layer(shape, dtype, biased, rank):
    torch.manual_seed(0)
    a = torch.randn(64, rank, dtype=dtype, requires_grad=True)
    b = torch.randn(96, rank, dtype=dtype, requires_grad=True)
    x = torch.randn(*shape, 96, dtype=dtype, requires_grad=True)
    bias = torch.randn(64, dtype=dtype, requires_grad=True) if biased else None
    sources = [tensor for tensor in (x, a, b, bias) if tensor is not None]
    weights = torch.randn(*shape, 64, dtype=dtype)
    results = []
    for weight in (LowRankTensor(a, b.T), a @ b.T):
        y = F.linear(x, weight, bias)
        results.append((y, *torch.autograd.grad((y * weights).sum(), sources)))
    for factored, dense in zip(*results, strict=True):
        torch.testing.assert_close(factored, dense, rtol=1e-4, atol=1e-2 if dtype == torch.float else 1e-9)


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


@pytest.mark.parametrize("transposed", [False, True])
def test_products_hold_the_bias_of_their_layer(transposed):
    a, b = factors = [torch.randn(2, size, 4, dtype=torch.double, requires_grad=True) for size in (32, 40)]
    biases = torch.randn(2, 32, dtype=torch.double, requires_grad=True)
    products = [([(0, "one.weight"), (0, "two.weight")], Factors(a, b, (1, 1), 2.0, transposed))]
    (tensors,) = Predicted([], products, Joined([([(0, "one.bias"), (0, "two.bias")], biases)])).by_name(1)
    x, results = torch.randn(200, 40, dtype=torch.double), []
    for factored in (True, False):
        dense = 2 * (b @ a.mT if transposed else a @ b.mT)
        weights = [tensors["one.weight"], tensors["two.weight"]] if factored else [*dense]
        of_layers = zip(weights, [tensors["one.bias"], tensors["two.bias"]] if factored else biases, strict=True)
        assert all(isinstance(weight, LowRankTensor) is factored for weight in weights)
        y = sum(
            (torch.addmm(bias, x, weight) if transposed else F.linear(x, weight, bias)).square().sum()
            for weight, bias in of_layers
        )
        results.append((y, *torch.autograd.grad(y, (*factors, biases), retain_graph=True)))
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted)


def test_few_rows_do_not_pay_for_the_product():
    assert not dense_is_faster(1, 192, 192, 90)
    assert dense_is_faster(4096, 64, 64, 64)
    assert not dense_is_faster(4096, 768, 768, 90)
