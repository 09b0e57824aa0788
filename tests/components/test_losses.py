"""Losses compute the formulas of the papers."""

import pytest
import torch

from lgx.components.losses import distillation_loss
from lgx.methods.hypernetworks.tal import feature_divergence, official_feature_divergence


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_distillation_loss_is_the_papers_soft_cross_entropy(temperature):
    student, teacher = torch.randn(6, 5, dtype=torch.double), torch.randn(6, 5, dtype=torch.double)
    expected = 0.0
    for p_s, p_t in zip(student, teacher, strict=True):
        soft_t, soft_s = (p_t / temperature).exp(), (p_s / temperature).exp()
        expected -= ((soft_t / soft_t.sum()) * (soft_s / soft_s.sum()).log()).sum().item() / 6
    assert distillation_loss(student, teacher, temperature).item() == pytest.approx(expected, rel=1e-5)
    entropy = distillation_loss(teacher, teacher, temperature).item()
    assert entropy <= distillation_loss(student, teacher, temperature).item()


def test_divergences_are_zero_for_equal_features_and_depend_on_the_direction():
    one, other = torch.randn(4, 8), torch.randn(4, 8)
    assert feature_divergence(one, one + 3).abs() < 1e-6  # a softmax ignores a shift
    assert official_feature_divergence(one, one, 10).abs() < 1e-6
    p, q = one.softmax(1), other.softmax(1)
    torch.testing.assert_close(feature_divergence(one, other), (p * (p / q).log()).sum(1).mean())
    p, q = (other / 3).softmax(1), (one / 3).softmax(1)
    torch.testing.assert_close(official_feature_divergence(one, other, 10), 9 * (p * (p / q).log()).sum() / (4 * 10))
