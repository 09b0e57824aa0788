"""The initializers of the baselines; test_values_of_families.py compares them with naive loops."""

from types import SimpleNamespace

import pytest
import timm
import torch
from torch.nn.functional import cross_entropy

from lgx.initialization import initialize
from lgx.methods import Finetune, RandomStart
from lgx.methods.initializers import initializer_for
from tests.support.untrained_learngenes import BIG


def test_random_start_is_timms_own():
    torch.manual_seed(3)
    expected = BIG.build().state_dict()
    torch.manual_seed(3)
    start = initialize(BIG, RandomStart())
    assert start.taken == ()
    assert all(torch.equal(expected[k], v) for k, v in start.model.state_dict().items())


def test_a_source_without_a_head_has_no_number_of_classes(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=0)
    timm.models.save_for_hf(model, tmp_path / "bare", model_args={"img_size": 32}, safe_serialization=True)
    assert initializer_for(str(tmp_path / "bare"), "vanilla_lg").origin().num_classes is None


def test_class_weights_multiply_the_losses_of_their_classes():
    logits, labels, weights = torch.randn(4, 3), torch.tensor([0, 2, 1, 2]), torch.tensor([0.5, 2.0, 1.0])
    method = SimpleNamespace(class_weights=weights, label_smoothing=0.0)
    expected = (weights[labels] * cross_entropy(logits, labels, reduction="none")).mean()
    torch.testing.assert_close(Finetune.label_loss(method, logits, labels), expected)


@pytest.mark.parametrize(("counts", "is_told"), [([40, 5, 50], False), ([40, 4, 9], True), ([10, 101, 50], True)])
def test_a_run_reports_small_and_unequal_classes(counts, is_told, capsys):
    Finetune._say_imbalance(SimpleNamespace(print=print), counts, {})
    assert ("--model.class_weights true" in capsys.readouterr().out) == is_told
