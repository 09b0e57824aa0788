"""Import optional dependencies, with a clear message if one is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from lgx.errors import UserError

EXTRAS = {
    "nlp": ("transformers", "tokenizers", "datasets"),
    "sweep": ("submitit",),
    "pruning": ("torch_pruning",),
    "loggers": ("wandb", "mlflow"),
    "images": ("pillow_heif", "imagecodecs"),
    "cloud": ("s3fs",),
    "export": ("onnx", "onnxscript", "onnx_ir", "onnxruntime"),
}
"""Group of optional packages in pyproject.toml -> what Python calls them."""


@contextmanager
def extra(name: str, user: str) -> Iterator[None]:
    """Import packages of an extra inside the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in EXTRAS[name]:
            raise
        raise UserError(f"{user}: needs {error.name}, which is not installed; pip install 'lgx[{name}]'") from error
