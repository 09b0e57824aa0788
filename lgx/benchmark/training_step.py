"""Training steps to measure, and the ordinary step that others are compared with."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture

PRECISIONS = {"32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Name of a precision -> type that autocast computes with; ``32`` and ``tf32`` are without autocast."""


def device() -> str:
    """Type of the device to measure on: ``cuda`` if there is a GPU, else ``cpu``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def autocast(precision: str) -> AbstractContextManager[None]:
    """Context in which the forward pass computes with a precision.

    Args:
        precision: A key of :data:`PRECISIONS`.
    """
    return torch.autocast(device(), dtype=PRECISIONS[precision], enabled=PRECISIONS[precision] != torch.float32)


@contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Context in which matrix products of float32 are computed in TF32 if that is the precision, else in float32.

    Args:
        precision: A key of :data:`PRECISIONS`.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def random_images(architecture: ViTArchitecture, batch: int) -> tuple[Tensor, Tensor]:
    """Draw a random batch.

    Args:
        architecture: Decides the images' size and channels, and the number of classes.
        batch: Number of images B.

    Returns:
        Images, (B, C, H, W), and class indices, (B,).
    """
    size = (batch, architecture.in_chans, architecture.img_size, architecture.img_size)
    return torch.randn(size, device=device()), torch.randint(architecture.num_classes, (batch,), device=device())


def training_step(module: nn.Module, loss: Callable[[], Tensor], precision: str) -> Callable[[], None]:
    """A training step: forward pass, backward pass and AdamW.

    AdamW is fused, its fastest implementation, for all steps that are compared.

    Args:
        module: The module whose parameters are trained.
        loss: Computes the loss, a scalar.
        precision: A key of :data:`PRECISIONS`.

    Returns:
        A function that runs one step.
    """
    optimizer = torch.optim.AdamW(module.parameters(), 1e-4, fused=True)

    def step() -> None:
        with autocast(precision):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ordinary_step(
    architecture: ViTArchitecture, batch: int, precision: str, compiled: bool = False
) -> Callable[[], None]:
    """The reference: a training step of timm's ViT on random images and labels.

    Args:
        architecture: The ViT.
        batch: Number of images.
        precision: A key of :data:`PRECISIONS`.
        compiled: Whether the ViT is compiled with ``torch.compile``.

    Returns:
        A function that runs one step.
    """
    model = architecture.build().to(device())
    if compiled:
        model.compile()
    inputs, targets = random_images(architecture, batch)
    return training_step(model, lambda: F.cross_entropy(model(inputs), targets), precision)
