"""Ordinary training steps, which all others are compared with."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture

PRECISIONS = {"32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision: str) -> AbstractContextManager[None]:
    """Autocast to a precision of :data:`PRECISIONS`; off for ``32``."""
    return torch.autocast(device(), dtype=PRECISIONS[precision], enabled=precision != "32")


def device() -> str:
    """A GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def images(architecture: ViTArchitecture, batch: int) -> tuple[Tensor, Tensor]:
    """Random images (B, C, H, W) and classes (B,)."""
    size = (batch, architecture.in_chans, architecture.img_size, architecture.img_size)
    return torch.randn(size, device=device()), torch.randint(architecture.num_classes, (batch,), device=device())


def training_step(module: nn.Module, loss: Callable[[], Tensor], precision: str) -> Callable[[], None]:
    """Forward, backward and AdamW (fused, so that both sides of a ratio have the fastest optimizer)."""
    optimizer = torch.optim.AdamW(module.parameters(), 1e-4, fused=True)

    def step() -> None:
        with autocast(precision):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ordinary_step(architecture: ViTArchitecture, batch: int, precision: str) -> Callable[[], None]:
    """A timm ViT trained on labels."""
    model = architecture.build().to(device())
    inputs, targets = images(architecture, batch)
    return training_step(model, lambda: F.cross_entropy(model(inputs), targets), precision)
