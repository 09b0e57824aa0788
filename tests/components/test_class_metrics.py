"""Balanced accuracy, the scores of classes and the calibration error, compared with scikit-learn and an own count."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    balanced_accuracy_score,
    confusion_matrix,
    precision_recall_fscore_support,
    roc_auc_score,
    top_k_accuracy_score,
)

from lgx.components.class_metrics import BalancedAccuracy, confusions, scores_of_classes
from lgx.components.metrics import metric_names, metrics_for, update_metrics
from lgx.core.task import Task


@st.composite
def predictions(draw):
    """Logits (N, K) and labels (N,) in two batches; classes may lack examples or predictions."""
    classes, n = draw(st.integers(2, 25)), draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.integers(0, draw(st.integers(1, classes)), n)
    logits = rng.normal(0, draw(st.sampled_from([0.1, 1.0, 8.0, 60.0])), (n, classes))
    return torch.tensor(logits, dtype=torch.float32), torch.tensor(labels)


def measured(logits, labels):
    metrics = metrics_for(Task("t", logits.shape[1]), "test")
    half = len(labels) // 2
    for part in (slice(0, half), slice(half, None)):
        if len(labels[part]):
            update_metrics(metrics, logits[part], labels[part])
    return {name: metric.compute() for name, metric in metrics.items(keep_base=True)}


@settings(deadline=None, max_examples=60)
@given(predictions())
def test_scores_of_classes_are_those_of_scikit_learn(given_predictions):
    logits, labels = given_predictions
    found, predicted, classes = measured(logits, labels), logits.argmax(dim=1), range(logits.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes without examples
        assert float(found["balanced_acc"]) == pytest.approx(balanced_accuracy_score(labels, predicted), abs=1e-6)
        columns = precision_recall_fscore_support(labels, predicted, labels=classes, zero_division=np.nan)
    own = scores_of_classes(found["counts"])
    for name, column in zip(("precision", "recall", "f1", "examples"), columns, strict=True):
        assert [getattr(scores, name) for scores in own] == pytest.approx(column.tolist(), abs=1e-6, nan_ok=True)
    assert found["confusion"].tolist() == confusion_matrix(labels, predicted, labels=classes).tolist()


@settings(deadline=None, max_examples=60)
@given(predictions())
def test_the_calibration_error_is_the_mean_gap_over_bins_of_confidence(given_predictions):
    logits, labels = given_predictions
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    bins = np.clip(np.ceil(confidence.double().numpy() * 15).astype(int) - 1, 0, 14)
    right, error = (predicted == labels).numpy(), 0.0
    for number in set(bins.tolist()):
        inside = bins == number
        error += abs(right[inside].mean() - confidence.numpy()[inside].mean()) * inside.mean()
    assert float(measured(logits, labels)["ece"]) == pytest.approx(error, abs=1e-4)


def test_logits_that_look_like_probabilities_are_none():
    confidence = torch.tensor([0.2, 0.9]).softmax(dim=0).max()
    assert float(measured(torch.tensor([[0.2, 0.9]]), torch.tensor([1]))["ece"]) == pytest.approx(float(1 - confidence))


@pytest.mark.parametrize("scale", [0.1, 1.0, 300.0])
def test_the_auroc_of_two_classes_is_scikit_learns_also_where_probabilities_would_round_to_one(scale):
    logits = scale * torch.randint(-4, 5, (200, 2), generator=torch.Generator().manual_seed(0)).float()  # with ties
    labels = (logits[:, 1] - logits[:, 0] + 3 * scale * torch.randn(200) > 2 * scale).long()
    expected = roc_auc_score(labels, logits.double().diff(dim=1)[:, 0].numpy())
    assert float(measured(logits, labels)["auroc"]) == pytest.approx(expected, abs=1e-6)
    for only in (0, 1):
        assert measured(logits, torch.full_like(labels, only))["auroc"].isnan()
    assert "auroc" not in metric_names(Task("t", 3), "test") + metric_names(Task("t", 2), "val")


def test_top_five_is_measured_of_more_than_twenty_classes():
    torch.manual_seed(0)
    logits, labels = torch.randn(200, 21), torch.arange(200) % 21
    expected = top_k_accuracy_score(labels, logits, k=5, labels=range(21))
    assert float(measured(logits, labels)["acc5"]) == pytest.approx(expected)
    assert "acc5" not in metric_names(Task("t", 20), "test")
    assert metric_names(Task("t", 21), "val") == ["acc", "loss"]


def test_the_most_frequent_mistakes_come_first():
    matrix = torch.tensor([[5, 2, 0], [0, 7, 3], [1, 0, 9]])
    assert confusions(matrix) == [(1, 2, 3), (0, 1, 2), (2, 0, 1)]
    assert confusions(torch.eye(3)) == []


def test_a_hundred_thousand_classes_are_counted_without_a_table_of_all_pairs():
    assert "confusion" in measured(torch.eye(2, 1000), torch.arange(2))
    assert "confusion" not in measured(torch.eye(2, 20_000), torch.arange(2))
    logits, labels = torch.zeros(4, 100_000), torch.tensor([0, 0, 7, 99_999])
    found = measured(logits, labels)  # a table of pairs would have 80 GB
    assert float(found["balanced_acc"]) == pytest.approx(1 / 3)
    assert found["counts"].sum(dim=0).tolist() == [2, 4, 4]


def test_the_error_of_balanced_accuracy_is_that_of_a_mean_of_shares():
    metric, right = BalancedAccuracy(3), torch.tensor([1, 1, 1, 0, 1, 0])
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    metric.update(torch.nn.functional.one_hot(torch.where(right == 1, labels, 2), 3).float(), labels)
    assert float(metric.compute()) == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert BalancedAccuracy(3).error == 0
    assert metric.error == pytest.approx((5 / 8 * 3 / 8 * (1 / 4 + 1 / 2)) ** 0.5 / 2)
