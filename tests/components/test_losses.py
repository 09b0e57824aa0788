"""Losses compute the formulas of the papers."""

from types import SimpleNamespace

import pytest
import torch

from lgx.architectures import ViTArchitecture
from lgx.architectures.hf_model import TextNetwork
from lgx.components.features import Features, feature_losses, features_and_logits
from lgx.components.losses import (
    balanced_weights,
    distillation_loss,
    label_loss,
    label_losses,
    labeled_logits,
    make_mixup,
    multilabel_distillation_loss,
    weighted_label_loss,
)
from lgx.components.metrics import agreement_with
from lgx.components.updates import mean_of_examples
from lgx.methods.hypernetworks.tal import feature_divergence, official_feature_divergence


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_distillation_loss_is_the_papers_soft_cross_entropy(temperature):
    student, teacher = torch.randn(6, 5, dtype=torch.double), torch.randn(6, 5, dtype=torch.double)
    expected = 0.0
    for p_s, p_t in zip(student, teacher, strict=True):
        soft_t, soft_s = (p_t / temperature).exp(), (p_s / temperature).exp()
        expected -= ((soft_t / soft_t.sum()) * (soft_s / soft_s.sum()).log()).sum().item() / 6
    entropy, loss = (distillation_loss(one, teacher, temperature).item() for one in (teacher, student))
    assert entropy <= loss == pytest.approx(expected, rel=1e-5)


def test_divergences_are_zero_for_equal_features_and_depend_on_the_direction():
    one, other = torch.randn(4, 8), torch.randn(4, 8)
    assert feature_divergence(one, one + 3).abs() < 1e-6  # a softmax ignores a shift
    assert official_feature_divergence(one, one, 10).abs() < 1e-6
    p, q = one.softmax(1), other.softmax(1)
    torch.testing.assert_close(feature_divergence(one, other), (p * (p / q).log()).sum(1).mean())
    p, q = (other / 3).softmax(1), (one / 3).softmax(1)
    torch.testing.assert_close(official_feature_divergence(one, other, 10), 9 * (p * (p / q).log()).sum() / (4 * 10))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_label_smoothing_is_the_formula_of_its_paper(smoothing):
    logits, labels = torch.randn(6, 5, dtype=torch.double), torch.tensor([0, 4, 2, 2, 1, 3])
    wanted = (1 - smoothing) * torch.eye(5)[labels].double() + smoothing / 5  # Szegedy et al., 2016, Section 7
    of_each = -(wanted * logits.softmax(1).log()).sum(1)
    torch.testing.assert_close(label_loss(logits, labels, smoothing), of_each.mean())
    weights = torch.tensor([0.5, 2.0, 1.0, 0.1, 3.0]).double()
    weighted = weighted_label_loss(logits, labels, weights, smoothing)
    torch.testing.assert_close(weighted, (weights[labels] * of_each).mean())
    pixels = torch.tensor([[[0, 255, 2]], [[255, 255, 3]]])  # (2, 1, 3); three are labeled
    maps = torch.stack([logits[:3].T, logits[3:].T])[:, :, None]
    torch.testing.assert_close(label_loss(maps, pixels, smoothing), _of(maps, pixels, smoothing).mean())
    for one in (torch.full_like(pixels, 255), torch.where(pixels == 3, pixels, 255)):
        torch.testing.assert_close(label_loss(maps, one, smoothing), _of(maps, one, smoothing).sum())
    several, yes = torch.eye(5)[labels].long(), logits.sigmoid()
    soft = several * (1 - smoothing / 2) + (1 - several) * smoothing / 2
    assert label_loss(logits, torch.full_like(several, 255), smoothing) == 0
    expected = -(soft * yes.log() + (1 - soft) * (1 - yes).log()).mean()
    torch.testing.assert_close(label_loss(logits, several, smoothing), expected)


def _of(maps, pixels, smoothing):
    """Cross-entropy of each labeled pixel, by the formula."""
    rows = maps.movedim(1, -1)[pixels != 255]
    wanted = (1 - smoothing) * torch.eye(5)[pixels[pixels != 255]] + smoothing / 5
    return -(wanted * rows.softmax(1).log()).sum(1)


def test_losses_of_examples_are_those_of_the_mean():
    logits, labels = torch.randn(6, 5), torch.tensor([0, 4, 2, 2, 1, 3])
    torch.testing.assert_close(label_losses(logits, labels).mean(), label_loss(logits, labels))
    assert label_losses(logits, labels).shape == (6,)
    several = torch.randint(0, 2, (6, 5))
    torch.testing.assert_close(label_losses(logits, several).mean(), label_loss(logits, several))
    maps, pixels = torch.randn(2, 5, 1, 3), torch.tensor([[[0, 255, 2]], [[255, 255, 3]]])
    torch.testing.assert_close(label_losses(maps, pixels), _of(maps, pixels, 0.0))
    assert torch.equal(labeled_logits(maps, pixels), maps.movedim(1, -1)[pixels != 255])


def test_features_of_texts_count_no_padding():
    tokens, real = torch.randn(2, 4, 5), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    model = SimpleNamespace(tokens_and_logits=lambda ids: (tokens, ids), pooled=TextNetwork().pooled)
    found = features_and_logits(model, real, real)[0]
    torch.testing.assert_close(found.summary, torch.stack([tokens[0].mean(0), tokens[1, :2].mean(0)]))
    other = Features(torch.randn(2, 5), torch.randn_like(found.patches))
    losses = feature_losses(found, other, real)[0]
    for row, length in enumerate((4, 2)):
        alone = [Features(each.summary[[row]], each.patches[[row], ..., :length]) for each in (found, other)]
        torch.testing.assert_close(losses[[row]], feature_losses(*alone)[0])


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_distillation_of_several_labels_is_a_binary_cross_entropy_for_each(temperature):
    student, teacher = torch.randn(6, 5), torch.randn(6, 5)
    own, wanted = ((logits / temperature).sigmoid() for logits in (student, teacher))
    expected = -(wanted * own.log() + (1 - wanted) * (1 - own).log()).mean()
    torch.testing.assert_close(multilabel_distillation_loss(student, teacher, temperature), expected)
    assert distillation_loss(student[:0], teacher[:0], temperature) == 0
    divergence, same = agreement_with(student, teacher, temperature)
    p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
    torch.testing.assert_close(divergence, (p * (p / q).log()).sum(1))
    assert same.tolist() == [float(s.max(0).indices == t.max(0).indices) for s, t in zip(student, teacher, strict=True)]


def test_mixed_labels_are_shares_of_two_classes_which_the_loss_smooths():
    mix = make_mixup(1.0, 0.0, ViTArchitecture(1, 8, 2, img_size=16, num_classes=5))
    images, labels = torch.zeros(4, 3, 8, 8), torch.tensor([0, 1, 2, 3])
    images += labels[:, None, None, None]
    mixed, shares = mix(images.clone(), labels)
    weight = ((mixed[:, 0, 0, 0] - labels.flip(0)) / (labels - labels.flip(0)))[:, None]
    wanted = weight * torch.eye(5)[labels] + (1 - weight) * torch.eye(5)[labels.flip(0)]
    torch.testing.assert_close(shares, wanted, atol=1e-5, rtol=0)
    logits = torch.randn(4, 5)
    expected = -((0.9 * wanted + 0.1 / 5) * logits.softmax(1).log()).sum(1).mean()
    torch.testing.assert_close(label_loss(logits, shares, 0.1), expected, atol=1e-5, rtol=1e-5)
    assert make_mixup(0.0, 0.0, ViTArchitecture(1, 8, 2, img_size=16)) is None


def test_means_of_examples_leave_out_what_has_no_label():
    losses, labels = torch.tensor([1.0, 3.0, 8.0]), torch.tensor([0, 2, 1])
    assert mean_of_examples(losses, labels) == 4
    pixels = torch.full((3, 2, 2), 255)
    assert mean_of_examples(losses, pixels) == 0
    pixels[0, 0, 0] = pixels[1] = 4
    assert mean_of_examples(losses, pixels) == pytest.approx((1 * 1 + 4 * 3) / 5)  # one pixel, four, none
    assert balanced_weights([3, 1, 0]).tolist() == pytest.approx([4 / (2 * 3), 4 / 2, 0])
