"""Losses, metrics and updates of language count tokens, each token once."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lgx.components.losses import distillation_loss, label_loss, label_losses, labeled_logits
from lgx.components.metrics import agreement_with, metric_names, metrics_for, update_metrics
from lgx.components.updates import UpdateMean
from lgx.core.task import IGNORE_TOKEN, Task
from lgx.results.metrics import lower_is_better

VOCABULARY = 300  # 255, which pixels ignore, is a token
TASK = Task("t", VOCABULARY, "language", "perplexity", max_len=6, vocab_size=VOCABULARY, bytes_per_token=(3.5, 4.0))


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    found = [(torch.randn(size, 6, VOCABULARY), torch.randint(VOCABULARY, (size, 6))) for size in (3, 1)]
    found[0][1][:, 0] = 255
    found[1][1][:, 2:] = IGNORE_TOKEN
    return found


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_are_means_over_all_known_tokens(smoothing):
    for logits, targets in batches():
        rows = [(logits[b, n], targets[b, n]) for b, n in (targets != IGNORE_TOKEN).nonzero().tolist()]
        plain = torch.stack([F.cross_entropy(row, token, label_smoothing=smoothing) for row, token in rows])
        torch.testing.assert_close(label_loss(logits, targets, smoothing), plain.mean())
        if not smoothing:
            torch.testing.assert_close(label_losses(logits, targets), plain)
        teacher = torch.randn_like(logits)
        soft = F.cross_entropy(
            torch.stack([row for row, _ in rows]) / 2, labeled_logits(teacher, targets).div(2).softmax(-1)
        )
        torch.testing.assert_close(distillation_loss(logits, teacher, 2.0, targets), soft)
        divergence, agreement = agreement_with(logits, teacher)
        assert divergence.shape == agreement.shape == (targets.numel(),)
    assert label_loss(torch.randn(1, 2, 5), torch.full((1, 2), IGNORE_TOKEN)) == 0


@pytest.mark.parametrize(("split", "per_token"), [("val", 3.5), ("test", 4.0)])
def test_perplexity_and_bits_per_byte_are_those_of_the_whole_split(split, per_token):
    metrics = metrics_for(TASK, split)
    for logits, targets in batches():
        assert [*update_metrics(metrics, logits, targets)] == [*metrics.keys()]
    assert metric_names(TASK, split) == ["perplexity", "bpb", "acc", "loss"]
    rows = torch.cat([logits.flatten(0, 1) for logits, _ in batches()])
    tokens = torch.cat([targets.flatten() for _, targets in batches()])
    known = tokens != IGNORE_TOKEN
    loss = float(F.cross_entropy(rows[known], tokens[known]))
    values = {name: float(value) for name, value in metrics.compute().items()}
    assert values["loss"] == pytest.approx(loss, rel=1e-5)
    assert values["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    assert values["bpb"] == pytest.approx(loss / math.log(2) / per_token, rel=1e-5)
    assert values["acc"] == pytest.approx(float((rows.argmax(1) == tokens)[known].float().mean()))
    assert values["n"] == 4  # sequences
    assert [name for name in values if name != "n" and lower_is_better(name)] == ["bpb", "loss", "perplexity"]


def test_without_a_count_of_bytes_there_are_no_bits_per_byte():
    assert metric_names(Task("t", 9, "language", "perplexity", vocab_size=9)) == ["perplexity", "acc", "loss"]


def test_an_update_weighs_all_tokens_alike_and_255_is_one():
    update, layer = UpdateMean(), nn.Linear(1, 1)
    one: Any = SimpleNamespace(reduce=lambda value, reduce_op: value)
    trainer: Any = SimpleNamespace(is_last_batch=False, accumulate_grad_batches=2, strategy=one)
    for batch, (targets, weight) in enumerate((([[255, 3]], 1.0), ([[255, IGNORE_TOKEN]], 0.5))):
        assert update.weighted(torch.tensor(4.0), torch.tensor(targets), trainer, batch, "language") == 4 * weight
    layer.weight.grad = torch.ones(1, 1)
    update.correct(layer, trainer, {"language"})
    assert layer.weight.grad.item() == pytest.approx(2 / 1.5)
