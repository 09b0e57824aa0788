"""Time and memory of the slices of a nested learngene, beside networks of their sizes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.steps import autocast, device, random_images
from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.components.features import FeatureProjection
from lgx.methods import Nested
from lgx.methods.distillation.guidance import projected_features
from lgx.methods.nested.slicing import for_slices


def nested_passes(architecture: ViTArchitecture, batch: int, precision: str) -> dict[str, Callable[[], None]]:
    """Forward and backward passes of three sizes: ``slices`` of one network, and ``separate`` networks.

    The sizes are the smallest and two random ones, as a step of ``Nested`` has them; each predicts features and logits.
    """
    images, _ = random_images(architecture, batch)
    width = architecture.embed_dim

    def projected(network: Any) -> Any:
        network.projection = FeatureProjection(network.embed_dim, width, width)
        return network.to(device())

    with TemporaryDirectory() as folder:
        file = Path(folder) / f"ancestor{SUFFIX}"
        Learngene("ancestor", architecture, dict(architecture.build().state_dict())).save(file)
        method = Nested(arch=architecture.spec(), optimizer=partial(torch.optim.AdamW, lr=1e-4), ancestor=str(file))
        method.network = projected(method.build_network())
        sizes = method.draw(0)
    networks = [projected(size.build()) for size in sizes]

    def slices() -> list[tuple[Any, Tensor]]:
        copies = for_slices(method.parameters_by_name, len(sizes))
        return [method.outputs(size, images, None, parameters) for size, parameters in zip(sizes, copies, strict=True)]

    def separate() -> list[tuple[Any, Tensor]]:
        return [projected_features(network, images) for network in networks]

    def passes(outputs: Callable[[], list[tuple[Any, Tensor]]], parts: list[nn.Module]) -> None:
        with autocast(precision):
            found = outputs()
            total = torch.stack([f.summary.mean() + f.patches.mean() + logits.mean() for f, logits in found]).sum()
        total.backward()
        for part in parts:
            part.zero_grad()

    return {
        "slices": partial(passes, slices, [method.network]),
        "separate": partial(passes, separate, networks),
    }
