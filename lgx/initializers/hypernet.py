"""Starts predicted by a hypernetwork."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lgx.architectures.vit import ViTArchitecture
from lgx.batch import Task
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, load
from lgx.initializers.base import Initializer


class HypernetPrediction(Initializer):
    """All parameters of a descendant in one forward pass of GHN-3 or LoGAH.

    Args:
        hypernet: Learngene file of ``ghn3`` or ``logah``, or an official checkpoint.
        config: JSON file with the hypernetwork's configuration, where the weights do not store it.
        noise: Standard deviation of Gaussian noise, as a share of each matrix's own, that tells tiled and alike
            neurons apart before fine-tuning.
        seed: Seed of the noise.
    """

    def __init__(self, hypernet: str, config: str | None = None, noise: float = 0.0, seed: int = 0) -> None:
        if noise < 0:
            raise UserError(f"noise: must not be negative, got {noise}")
        self.hypernet, self.config, self.noise, self.seed = hypernet, config, noise, seed

    @cached_property
    def loaded(self) -> Hypernet:
        """The hypernetwork."""
        return load(self.hypernet, None if self.config is None else _read_config(self.config))

    @property
    def method(self) -> str:
        """``ghn3``, ``logah``, or ``logah_residual``."""
        return method_of(self.loaded.config)

    @property
    def stored_parameters(self) -> int:
        """Parameters of the hypernetwork."""
        return sum(p.numel() for p in self.loaded.parameters())

    def __call__(self, architecture: ViTArchitecture, task: Task | None = None) -> dict[str, Tensor]:
        """The predicted parameters."""
        with torch.no_grad():
            predicted = self.loaded.predict(architecture)
        if self.noise:
            generator = torch.Generator().manual_seed(self.seed)
            for name, tensor in predicted.items():
                if name.endswith("weight") and tensor.ndim > 1:
                    noise = torch.randn(tensor.shape, generator=generator)
                    predicted[name] = tensor + self.noise * tensor.std() * noise
        return {name: tensor.clone() for name, tensor in predicted.items()}


def method_of(config: HypernetConfig) -> str:
    """Name of the method that a configuration belongs to."""
    if config.decoder == "conv":
        return "ghn3"
    return "logah" if config.layout == "official" else "logah_residual"


def _read_config(path: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(path).read_text())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give a JSON file with the hypernetwork's configuration") from error
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not valid JSON ({error.msg})") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: holds a {type(content).__name__}, expected the configuration's keys and values")
    return content
