"""Probes of frozen features."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lgx.architectures import ViTArchitecture
from lgx.components.features import Probe, frozen_features
from lgx.errors import UserError


def blobs(count, classes=3, width=8, spread=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centers = torch.eye(classes, width)
    return centers[labels] + spread * torch.randn(count, width, generator=generator), labels


def voted(known, labels, features, k, temperature=0.07):
    """The definition of Wu et al., written out."""
    similarity = torch.nn.functional.cosine_similarity(features[:, None], known[None], dim=2)
    votes = torch.zeros(len(features), int(labels.max()) + 1)
    for row, (values, neighbors) in enumerate(zip(*similarity.topk(k), strict=True)):
        for value, neighbor in zip(values, neighbors, strict=True):
            votes[row, labels[neighbor]] += math.exp(value / temperature)
    return votes.argmax(dim=1)


@given(st.integers(1, 30), st.integers(0, 5))
def test_neighbors_vote_with_the_exponential_of_their_cosine_similarity(k, seed):
    known, labels = blobs(30, spread=0.8, seed=seed)
    tested, _ = blobs(12, spread=0.8, seed=seed + 100)
    expected = voted(known, labels, tested, k)
    assert Probe("knn", k).accuracy(known, labels, tested, expected) == 1
    assert Probe("knn", k).accuracy(known, labels, tested, (expected + 1) % 3) == 0


@pytest.mark.parametrize("name", ["knn", "linear"])
def test_a_probe_separates_what_can_be_separated_and_nothing_else(name):
    known, labels = blobs(90)
    tested, tested_labels = blobs(60, seed=1)
    assert Probe(name).accuracy(known, labels, tested, tested_labels) > 0.9
    shuffled = tested_labels[torch.randperm(60)]
    assert Probe(name).accuracy(known, labels, tested, shuffled) < 0.6


def test_a_linear_probe_does_not_depend_on_the_scale_of_a_feature():
    (known, labels), (tested, tested_labels) = blobs(60, 2, spread=0.6), blobs(60, 2, spread=0.6, seed=1)
    scale = torch.logspace(-3, 3, known.shape[1])
    plain, scaled = (Probe("linear").accuracy(known * s, labels, tested * s, tested_labels) for s in (1, scale))
    assert plain == pytest.approx(scaled, abs=0.02)


def test_features_precede_the_head_and_are_refused_if_not_finite():
    network = ViTArchitecture(1, 16, 2, patch_size=4, img_size=8, num_classes=5).build().eval()
    images = torch.randn(2, 3, 8, 8)
    features = frozen_features(network, images)
    assert features.shape == (2, 16)
    assert not features.requires_grad
    assert torch.equal(network.head(features), network(images))
    known, labels = blobs(30)
    with pytest.raises(UserError, match="not finite"):
        Probe("knn").accuracy(known, labels, known / 0, labels)
