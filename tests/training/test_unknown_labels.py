"""Labels that are unknown count nothing, however an update is cut; ``test_pairs`` compares fine-tuning with torch."""

from pathlib import Path

import pytest
import torch

from data_modules import MultiLabelFolderData
from lgx.components.losses import label_loss
from lgx.core.batch import IGNORE
from tests.support.command_line import ARCH, arguments, lgx
from tests.training.test_pairs import write
from tests.training.test_updates import SGD, assert_same, network_in, trained


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 training images, some of which have an unknown label."""
    folder = tmp_path_factory.mktemp("labels")
    write(folder, "multilabel", False, 16, False, (16, 16))
    return folder


@pytest.mark.parametrize("guidance", ["logits", "features"])
def test_an_update_weighs_all_known_labels_alike(root: Path, tmp_path: Path, guidance: str) -> None:
    source, _ = network_in(tmp_path, ARCH, 3, "multilabel")
    options = [f"--model.ancestor={source}", "--model.start=random", f"--model.guidance={guidance}", *SGD]
    options += ["--model.label_smoothing=0.2", "--data=MultiLabelFolderData", "--data.val_fraction=0"]
    for name, batch, accumulated in (("whole", 16, 1), ("parts", 2, 8)):
        parts = [f"--data.batch_size={batch}", f"--trainer.accumulate_grad_batches={accumulated}", f"--name={name}"]
        command = arguments("fit", "Distill", root, tmp_path / "runs", *options, *parts)
        done = lgx(*[part for part in command if "WarmupCosine" not in part])
        assert done.code == 0, done.err
    assert_same(*(trained(tmp_path / f"runs/test/{name}/seed0") for name in ("parts", "whole")))


def test_images_without_their_labels_ignore_unknown_ones(root: Path) -> None:
    module = MultiLabelFolderData(root=str(root), img_size=16, batch_size=16, val_fraction=0, labels=False)
    module.setup("fit")
    (batch,) = module.train_dataloader()  # type: ignore[attr-defined]
    assert batch.targets.tolist() == [0] * 16


def test_examples_without_a_known_label_have_no_loss() -> None:
    assert float(label_loss(torch.ones(2, 3), torch.full((2, 3), IGNORE))) == 0
