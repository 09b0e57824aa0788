"""The private members of other packages that lgx uses: they exist, and do what is said of them."""

import inspect

import jsonargparse
import lightning.pytorch

from lgx.training import lightning_internals as internals


def test_ddp_can_expect_unused_parameters():
    trainer = lightning.pytorch.Trainer(strategy="ddp", devices=1, accelerator="cpu", logger=False)
    internals.find_unused_parameters(trainer)
    assert "self._ddp_kwargs" in inspect.getsource(type(trainer.strategy)._setup_model)  # which reads them
    assert trainer.strategy._ddp_kwargs == {"find_unused_parameters": True}


def test_a_whole_number_of_batches_is_no_share(monkeypatch):
    hints = inspect.unwrap(lightning.pytorch.Trainer.__init__).__annotations__
    monkeypatch.setitem(hints, "limit_train_batches", float | int | None)  # as typing may have kept it
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    internals.read_whole_numbers_first(lightning.pytorch.Trainer)
    parser.add_class_arguments(lightning.pytorch.Trainer, "trainer")
    batches, share = (parser.parse_args([f"--trainer.limit_train_batches={n}"]).trainer for n in ("1", "1.0"))
    assert type(batches.limit_train_batches) is int
    assert type(share.limit_train_batches) is float
