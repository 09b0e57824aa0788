"""Metrics and losses of classification, segmentation and text; inputs in another normalization."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, matthews_corrcoef
from torch.nn import functional as F

from lgx.components.class_metrics import Matthews, PositiveF1
from lgx.components.losses import label_loss
from lgx.components.metrics import metric_names, metrics_for, update_metrics, was_measured
from lgx.core.task import IGNORE, Task
from lgx.errors import UserError


def naive_miou(predicted: np.ndarray, targets: np.ndarray, classes: int) -> float:
    counted = targets != IGNORE
    found = []
    for c in range(classes):
        union = counted & ((predicted == c) | (targets == c))
        if union.any():
            found.append((union & (predicted == targets)).sum() / union.sum())
    return float(np.mean(found))


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(2, 7))
def test_miou_is_that_of_the_whole_split_without_unlabeled_pixels(seed, classes):
    rng = torch.Generator().manual_seed(seed)
    task = Task("t", classes + 2, kind="segmentation", metric="miou")  # two classes never occur
    metrics, logits, targets = metrics_for(task), [], []
    assert metric_names(task) == ["miou", "acc", "loss"]
    for size in (3, 1):
        logits.append(torch.randn(size, classes + 2, 4, 5, generator=rng))
        logits[-1][:, classes:] = -9
        target = torch.randint(classes, (size, 4, 5), generator=rng)
        targets.append(target.masked_fill(torch.rand(size, 4, 5, generator=rng) < 0.3, IGNORE))
        update_metrics(metrics, logits[-1], targets[-1])
    predicted, wanted = torch.cat(logits).argmax(1).numpy(), torch.cat(targets).numpy()
    counted = wanted != IGNORE
    values = {name: float(value) for name, value in metrics.compute().items()}
    assert values["miou"] == pytest.approx(naive_miou(predicted, wanted, classes + 2), abs=1e-6)
    assert values["acc"] == pytest.approx((predicted == wanted)[counted].mean(), abs=1e-6)
    assert values["n"] == 4
    rows = torch.cat(logits).permute(0, 2, 3, 1)[torch.from_numpy(counted)]
    mean = F.cross_entropy(rows, torch.from_numpy(wanted[counted]))
    assert values["loss"] == pytest.approx(float(mean), rel=1e-5)
    assert float(label_loss(torch.cat(logits), torch.cat(targets))) == pytest.approx(float(mean), rel=1e-5)


def test_class_255_is_a_class_and_logits_of_several_labels_are_no_probabilities():
    metrics = metrics_for(Task("t", 300))
    logits = F.one_hot(torch.tensor([255, 1]), 300).float()
    update_metrics(metrics, logits, torch.tensor([255, 255]))
    assert float(metrics["acc"].compute()) == 0.5
    with pytest.raises(UserError, match="task t: metric 'speed' is unknown; known are acc, miou"):
        metrics_for(Task("t", 3, metric="speed"))
    metrics = metrics_for(Task("t", 2, kind="multilabel", metric="map"))
    update_metrics(metrics, torch.tensor([[0.2, 0.3]]), torch.tensor([[1, 1]]))
    assert float(metrics["label_acc"].compute()) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("center", [-60.0, 0.0, 60.0])
def test_the_average_precision_ranks_logits_also_where_probabilities_would_be_equal(center, dtype):
    rng = torch.Generator().manual_seed(0)
    logits = (center + 20 * torch.randn(60, 3, generator=rng)).to(dtype)
    targets = (logits.double() + 15 * torch.randn(60, 3, generator=rng) > center).long()
    metrics = metrics_for(Task("t", 3, kind="multilabel", metric="map"))
    for part, part_targets in zip(logits.split(7), targets.split(7), strict=True):
        update_metrics(metrics, part, part_targets)
    expected = average_precision_score(targets, logits.double().numpy(), average="macro")
    assert float(metrics["map"].compute()) == pytest.approx(expected, abs=1e-6)
    assert float(metrics["label_acc"].compute()) == pytest.approx(float(((logits > 0) == targets).double().mean()))


def test_metrics_without_an_example_were_not_measured():
    metrics = metrics_for(Task("a", 3))
    assert not was_measured(metrics)
    update_metrics(metrics, torch.eye(3)[:1], torch.tensor([0]))
    assert was_measured(metrics)


@pytest.mark.parametrize("n", [9, 50, 501])
@pytest.mark.parametrize("classes", [2, 3])
def test_text_metrics_agree_with_scikit_learn(n, classes):
    torch.manual_seed(n)
    logits, targets = torch.randn(n, classes), torch.randint(0, classes, (n,))
    matthews, f1 = Matthews(classes), PositiveF1(classes)
    for part, part_targets in zip(logits.split(7), targets.split(7), strict=True):
        matthews.update(part, part_targets)
        f1.update(part, part_targets)
    predicted = logits.argmax(1)
    assert matthews.compute().item() == pytest.approx(matthews_corrcoef(targets, predicted), abs=1e-6)
    expected = f1_score(targets, predicted, labels=[1], average="macro")
    assert f1.compute().item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("predicted", [0, 1])
@pytest.mark.parametrize("targets", [[0, 1, 1, 0, 1], [0] * 5, [1] * 5])
def test_a_predictor_of_one_class_has_no_correlation_and_no_warning(predicted, targets):
    matthews, f1 = Matthews(2), PositiveF1(2)
    logits = torch.eye(2)[[predicted] * 5]
    for metric in (matthews, f1):
        metric.update(logits, torch.tensor(targets))
    assert matthews.compute().item() == 0.0
    assert f1.compute().item() == pytest.approx(f1_score(targets, [predicted] * 5, zero_division=0))
