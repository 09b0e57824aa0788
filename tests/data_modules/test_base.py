"""The interface that methods and plans see of every data module."""

import pytest
from lightning.pytorch import LightningDataModule, Trainer

from data_modules import CIFAR10, CoLA, ImageNet, MultiTask
from lgx.errors import UserError
from lgx.methods.baselines.finetune import Finetune


def test_the_batches_of_an_epoch_are_counted_without_files() -> None:
    module = CIFAR10(root="/nowhere", batch_size=64)
    assert module.nominal_train_size() == 45_000
    assert module.epoch_batches([45_000]) == 703
    assert CoLA(root="/nowhere", batch_size=10).epoch_batches([95]) == 9
    several = MultiTask(("cifar10", "cifar100"), "/nowhere", batch_size=64)
    assert several.epoch_batches([45_000, 45_001]) == 1407


def test_the_published_size_holds_for_the_usual_share_of_validation_only_and_nothing_is_downloaded_to_count():
    assert CIFAR10(val_fraction=0.2).nominal_train_size() is None
    assert ImageNet().nominal_train_size() == 1_268_355
    assert ImageNet(val_fraction=0.1).nominal_train_size() is None
    with pytest.raises(UserError, match="downloaded"):
        CoLA(root="/nowhere", source="hub").count_train()


def test_a_bare_lightning_data_module_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    method = Finetune(arch="depth=1,embed_dim=16,num_heads=2,img_size=16", optimizer=None)
    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    method.trainer = trainer
    with pytest.raises(UserError, match="give one with --data, not bare loaders"):
        method.data_module()
    trainer.datamodule = LightningDataModule()
    with pytest.raises(UserError, match="give one with --data, not LightningDataModule"):
        method.data_module()
