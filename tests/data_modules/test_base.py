"""The interface that methods and plans see of every data module."""

import pytest
from lightning.pytorch import LightningDataModule, Trainer

from data_modules import CIFAR10, CoLA, ImageNet
from lgx.errors import UserError
from lgx.methods.baselines.finetune import Finetune


def test_an_announced_size_is_counted_by_the_loader_and_no_file_is_read() -> None:
    module = CIFAR10(root="/nowhere", batch_size=64)
    assert module.nominal_train_size() == 45_000
    module.announce_train_size(45_000)
    assert module.task.num_train == 45_000
    assert module.train_dataloader().epoch_length == 703
    texts = CoLA(root="/nowhere", batch_size=10, limit_train=95)
    texts.announce_train_size(1_000)
    assert texts.task.num_train == 95
    assert texts.train_dataloader().epoch_length == 9


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
