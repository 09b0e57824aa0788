"""The theorems of TAL's appendix in small linear cases."""

import torch


def smallest_gradient(scale: float, rate: float, steps: int = 2000) -> tuple[float, float]:
    """Least squared gradient of log cosh(scale · θ) in descent, and the bound of Theorem 1; β is 1, L_H is scale."""
    theta = torch.tensor(2.0, dtype=torch.float64)
    squares = []
    first = torch.log(torch.cosh(scale * theta))
    for _ in range(steps):
        gradient = scale * torch.tanh(scale * theta)
        squares.append(float(gradient**2))
        theta = theta - rate * gradient
    return min(squares), float(2 * first / (steps * rate))


def test_theorem_1_holds_for_a_step_size_below_the_inverse_of_the_squared_constant_alone():
    reached, bound = smallest_gradient(3, 0.3)  # below 1 / (L_H β), as the theorem and its proof ask
    assert reached > 100 * bound
    reached, bound = smallest_gradient(3, 1 / 9)
    assert reached <= bound
    for rate in (0.5, 1.0):  # with L_H = 1 both are one
        reached, bound = smallest_gradient(1, rate)
        assert reached <= bound


def test_theorem_2_is_exact_for_a_linear_hypernetwork_with_a_bias():
    target = torch.arange(6.0)
    hypernetwork = torch.nn.Linear(3, 6)
    with torch.no_grad():
        hypernetwork.weight.zero_()
        hypernetwork.bias.copy_(target)
    assert torch.equal(hypernetwork(torch.randn(3)), target)
