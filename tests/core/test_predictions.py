"""Of equal logits the first class is predicted, by everything that predicts."""

from types import SimpleNamespace

import torch

from lgx.commands import int8
from lgx.commands.predict import _answers
from lgx.components.metrics import agreement_with, metrics_for, update_metrics
from lgx.core.batch import Batch
from lgx.core.predictions import top_classes
from lgx.core.task import Task
from lgx.methods import Finetune
from lgx.training.callbacks.gallery import Gallery
from lgx.training.callbacks.predictions import _of_classes

TASK = Task("ties", 30, img_size=2, in_chans=1)


def test_ties_go_to_the_first_class(monkeypatch, tmp_path):
    logits = torch.randint(0, 4, (64, 30), generator=torch.Generator().manual_seed(0)) / 8  # as of a network in 8 bits
    logits[0] = 0.1
    logits[0, 7] = torch.nextafter(torch.tensor(0.1), torch.tensor(1.0))  # the largest, but not after a softmax
    order = [sorted(range(30), key=lambda k: (-row[k], k)) for row in logits.tolist()]
    first = torch.tensor(order)[:, 0]
    batch = Batch(torch.zeros(64, 1, 2, 2), first, "ties")
    metrics = metrics_for(TASK, "test")
    update_metrics(metrics, logits, first)
    assert metrics["acc"].compute() == metrics["acc5"].compute() == 1
    right, predicted, _ = metrics["counts"].compute().unbind(dim=1)
    assert torch.equal(right, predicted)
    assert metrics["confusion"].compute().trace() == 64
    assert [row[0::3] for row in _answers(logits, TASK, 30)] == order
    assert [row[0] for row in _of_classes(logits, [], [])] == ["class", *first.tolist()]
    assert agreement_with(logits, torch.nn.functional.one_hot(first, 30).float())[1].all()
    assert top_classes(logits, 5).tolist() == [row[:5] for row in order]
    monkeypatch.setattr(int8, "run_onnx", lambda file: (lambda inputs: logits, {}))
    assert int8._accuracy(tmp_path, [batch]) == 100
    seen, model = Gallery(), Finetune(arch="depth=1,embed_dim=8,num_heads=1", optimizer=torch.optim.SGD)
    model.tested = logits
    seen.on_test_start(None, None)
    seen.on_test_batch_end(SimpleNamespace(is_global_zero=True), model, None, batch, 0)
    assert not seen._mistakes
    assert [one.predicted for one in seen._others] == [first[one.place] for one in seen._others]
    assert seen._others
