"""Check a user's own data module before a command uses it."""

from typing import Any

from lightning.pytorch import Trainer

from data_modules import TaskDataModule
from data_modules.module_checks import Loader, check_module, is_of_another_package

_EVALUATED: dict[str, Loader] = {"validate": "val", "test": "test", "predict": "predict"}


def check_own_data(data: TaskDataModule, trainer: Trainer, command: str, tested: bool = False) -> None:
    """Check the first batches of a data module of another package, before anything is replaced or trained.

    Args:
        data: The data module; for ``fit`` its ``setup`` was called.
        trainer: The trainer that will use it.
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        tested: Whether ``fit`` also tests.

    Raises:
        UserError: If it breaks the contract that the docstring of ``TaskDataModule`` states.
    """
    if not is_of_another_package(data):
        return
    data.trainer = trainer
    if command != "fit":
        data.prepare_data()
        data.setup(command)
        return check_module(data, [_EVALUATED[command]])
    needed: dict[Loader, Any] = {"train": True, "val": trainer.limit_val_batches, "test": tested}
    return check_module(data, [loader for loader, needs in needed.items() if needs])
