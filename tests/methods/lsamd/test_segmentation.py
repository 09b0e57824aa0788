"""LSAMD on data sets for segmentation."""

import pytest
import torch
from torch import nn

from lgx.cli import main
from lgx.core.batch import Batch
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.methods import LSAMD
from lgx.methods.lsamd.selection import SelectionRun
from lgx.methods.lsamd.super_ancestor import SuperAncestor
from tests.methods.lsamd.conftest import ARCH, arguments
from tests.support import fake_masks
from tests.support.families import tiny


def test_segmentation_reads_tokens_after_the_last_norm_of_a_network_that_pools():
    torch.manual_seed(0)
    base = tiny("eva02", num_classes=0).build().eval()
    nn.init.normal_(base.fc_norm.weight)
    net = SuperAncestor(base, [Task("masks", 4, kind="segmentation")], "batch").eval()
    pixels = torch.randn(3, 3, 16, 16)
    with torch.no_grad():
        tokens = base.fc_norm(base.forward_features(pixels))[:, base.num_prefix_tokens :]
        expected = net.branches[0].head(tokens).mT.unflatten(2, (2, 2))
        logits, _ = net(pixels, 0)
    torch.testing.assert_close(nn.functional.interpolate(expected, size=(16, 16), mode="bilinear"), logits)


def test_one_class_per_image_is_not_predicted_for_segmentation(ancestor):
    method = LSAMD(ancestor=str(ancestor), arch=ARCH, optimizer=torch.optim.SGD)
    method.tasks = {"masks": Task("masks", 21, kind="segmentation")}
    with pytest.raises(UserError, match="which segmentation has not"):
        method.predict_step(Batch(torch.zeros(7, 3, 32, 32), torch.zeros(7), "masks"), 0)


def test_classification_and_segmentation_train_together(ancestor, tmp_path):
    runs = tmp_path / "runs"
    fake_masks.voc12(ancestor.parent / "data")
    main(arguments(ancestor, runs, "[pocket_persons,voc12]", "--data.batch_size=4", "--trainer.max_epochs=1"))
    run = runs / "t/selection/seed0"
    rows = (run / "results.csv").read_text().splitlines()
    assert any(",voc12,val,1,miou," in row for row in rows)
    assert any(",pocket_persons,val,1,acc," in row for row in rows)
    found = SelectionRun.load(run)
    assert list(found.selection.paths) == ["pocket_persons", "voc12"]
    assert found.state["branches.1.head.weight"].shape == (21, 16)
