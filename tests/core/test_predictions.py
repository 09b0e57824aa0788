"""Of equal logits the first class is predicted, by everything that predicts."""

import pytest
import torch

from lgx.commands import int8
from lgx.commands.predict import _answers
from lgx.components.metrics import agreement_with, metrics_for, update_metrics
from lgx.core.batch import Batch
from lgx.core.predictions import top_classes
from lgx.core.task import Task
from lgx.training.callbacks import gallery
from lgx.training.callbacks.predictions import _of_classes

TASK = Task("ties", 30, img_size=2, in_chans=1)
LOGITS = torch.randint(0, 4, (64, 30), generator=torch.Generator().manual_seed(0)) / 8  # as of a network in 8 bits
LOGITS[0] = 0.1
LOGITS[0, 7] = torch.nextafter(torch.tensor(0.1), torch.tensor(1.0))  # the largest, but not after a softmax
ORDER = [sorted(range(30), key=lambda k: (-row[k], k)) for row in LOGITS.tolist()]
FIRST = [order[0] for order in ORDER]


def of_a_test():
    metrics = metrics_for(TASK, "test")
    update_metrics(metrics, LOGITS, torch.tensor(FIRST))
    assert metrics["acc"].compute() == metrics["acc5"].compute() == 1
    right, predicted, _ = metrics["counts"].compute().unbind(dim=1)
    assert torch.equal(right, predicted)
    return [int(k) for k in metrics["confusion"].compute().nonzero()[:, 1]], sorted(set(FIRST))


def predicted():
    return [row[0::3] for row in _answers(LOGITS, TASK, 30)], ORDER


def saved():
    _, *rows = _of_classes(LOGITS, [], [])
    return [row[0] for row in rows], FIRST


def agreed():
    targets = torch.nn.functional.one_hot(torch.tensor(FIRST), 30).float()
    return agreement_with(LOGITS, targets)[1].tolist(), [1.0] * 64


def drawn():
    seen = gallery.Gallery()
    seen.on_test_start(None, None)
    model = object.__new__(type("Plain", (gallery.Method,), {"build_network": None, "training_losses": None}))
    torch.nn.Module.__init__(model)
    model.tested = LOGITS
    trainer = type("First", (), {"is_global_zero": True})
    seen.on_test_batch_end(trainer, model, None, Batch(torch.zeros(64, 1, 2, 2), torch.tensor(FIRST), "ties"), 0)
    return [one.predicted for one in seen._others] + seen._mistakes, [FIRST[one.place] for one in seen._others]


@pytest.mark.parametrize("by", [of_a_test, predicted, saved, agreed, drawn])
def test_ties_go_to_the_first_class(by):
    found, expected = by()
    assert found == expected


def test_what_8_bits_announce_is_what_they_predict(monkeypatch, tmp_path):
    monkeypatch.setattr(int8, "run_onnx", lambda file: (lambda inputs: LOGITS, {}))
    assert int8._accuracy(tmp_path, [Batch(LOGITS, torch.tensor(FIRST), "ties")]) == 100
    assert top_classes(LOGITS, 5).tolist() == [order[:5] for order in ORDER]
