"""The initializers of the baselines; test_values_of_families.py compares them with naive loops."""

import timm
import torch

from lgx.artifacts.learngene import Learngene
from lgx.initialization import initialize
from lgx.methods import Finetune, RandomStart, WeightSelection
from lgx.methods.initializers import initializer_for
from tests.support.untrained_learngenes import BIG


def test_random_start_is_timms_own():
    torch.manual_seed(3)
    expected = BIG.build().state_dict()
    torch.manual_seed(3)
    start = initialize(BIG, RandomStart())
    assert start.taken == ()
    assert all(torch.equal(expected[k], v) for k, v in start.model.state_dict().items())


def test_fine_tuning_weights_the_loss_of_labels_by_class():
    method = Finetune(arch="depth=1,embed_dim=8,num_heads=1", optimizer=None)
    logits, labels, weights = torch.randn(6, 3), torch.arange(6) % 3, torch.tensor([0.2, 1.0, 3.0])
    losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(method.label_loss(logits, labels), losses.mean())
    method.class_weights = weights
    torch.testing.assert_close(method.label_loss(logits, labels), (weights[labels] * losses).mean())


def test_weight_selection_says_which_layers_it_took(ancestor_file):
    start = initialize(BIG.replace(depth=4), WeightSelection(ancestor_file))
    assert start.notes == ("layers    the first 4 of the source's 6",)
    source = Learngene.load(ancestor_file).tensors
    assert torch.equal(start.model.blocks[3].mlp.fc1.weight, source["blocks.3.mlp.fc1.weight"])


def test_a_source_without_a_head_has_no_number_of_classes(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=0)
    timm.models.save_for_hf(model, tmp_path / "bare", model_args={"img_size": 32}, safe_serialization=True)
    assert initializer_for(str(tmp_path / "bare"), "vanilla_lg").origin().num_classes is None
