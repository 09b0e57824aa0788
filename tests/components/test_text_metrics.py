"""Matthews correlation coefficient and F1 agree with scikit-learn."""

import pytest
import torch
from sklearn.metrics import f1_score, matthews_corrcoef

from lgx.components.text_metrics import Matthews, PositiveF1


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
