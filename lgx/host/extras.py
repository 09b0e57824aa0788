"""Import optional dependencies, with a clear message if one is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from lgx.errors import UserError


@contextmanager
def nlp_extra(what: str) -> Iterator[None]:
    """Import transformers and datasets inside the block.

    Args:
        what: What needs them, for the message.

    Raises:
        UserError: If one of them is not installed; the message says how to install it.
    """
    with _extra("nlp", ("transformers", "tokenizers", "datasets"), f"{what}: text"):
        yield


@contextmanager
def sweep_extra(what: str) -> Iterator[None]:
    """Import submitit and optuna inside the block.

    Args:
        what: What needs them, for the message.

    Raises:
        UserError: If one of them is not installed; the message says how to install it.
    """
    with _extra("sweep", ("submitit", "optuna"), f"{what}:"):
        yield


@contextmanager
def pruning_extra(what: str) -> Iterator[None]:
    """Import torch-pruning inside the block.

    Args:
        what: What needs it, for the message.

    Raises:
        UserError: If it is not installed; the message says how to install it.
    """
    with _extra("pruning", ("torch_pruning",), f"{what}:"):
        yield


@contextmanager
def loggers_extra(what: str) -> Iterator[None]:
    """Import wandb or mlflow inside the block.

    Args:
        what: What needs it, for the message.

    Raises:
        UserError: If it is not installed; the message says how to install it.
    """
    with _extra("loggers", ("wandb", "mlflow"), what):
        yield


@contextmanager
def completion_extra(what: str) -> Iterator[None]:
    """Import shtab inside the block.

    Args:
        what: What needs it, for the message.

    Raises:
        UserError: If it is not installed; the message says how to install it.
    """
    with _extra("completion", ("shtab",), f"{what}:"):
        yield


@contextmanager
def export_extra(what: str) -> Iterator[None]:
    """Import onnx, onnxscript and onnxruntime inside the block.

    Args:
        what: What needs it, for the message.

    Raises:
        UserError: If it is not installed; the message says how to install it.
    """
    with _extra("export", ("onnx", "onnxscript", "onnx_ir", "onnxruntime"), f"{what}:"):
        yield


@contextmanager
def _extra(extra: str, packages: tuple[str, ...], who: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in packages:
            raise
        raise UserError(f"{who} needs {error.name}, which is not installed; pip install 'lgx[{extra}]'") from error
